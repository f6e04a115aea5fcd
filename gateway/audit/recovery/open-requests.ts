import { ownText } from '../../edge/syntax/characters.ts'
import { parsedJson } from '../../storage/line-file.ts'
import { utf8 } from '../../storage/lines-backward.ts'
import {
  pairKeyOf,
  RECORD_HEAD,
  RECORD_MAX_BYTES,
  REQUEST_HEAD,
  RESPONSE_HEAD,
  START_HEAD,
  STOP_HEAD,
  TRAIL_FORMAT,
} from '../audit-records.ts'
import { FOREIGN_HEAD } from '../seal-records.ts'

type CountLine = { readonly open?: unknown; readonly continues?: unknown; readonly format?: unknown }

/**
 * Finds API_REQUEST lines without an API_RESPONSE. `read` gets the lines one by one, the last first. `pairKeyOf` pairs
 * them by bytes, so most need no JSON parser. Memory grows only with the exchanges open at once.
 */
export class OpenRequests {
  found = false
  damagedLines = 0
  continues: string | undefined = undefined

  /** Ends of the gateway's own bytes in files that others have written to, by inode. */
  readonly ends = new Map<unknown, number>()

  /** Responses whose requests have not been read yet. */
  readonly #responses = new Map<string, number>()
  #responseCount = 0
  readonly #requests: string[] = []
  /** Requests to find, once a line has told how many are open. */
  #expected: number | undefined

  constructor(expected?: number) {
    this.#expected = expected
    this.found = expected === 0
  }

  /** @param line a latin1 slice without its `\n`. @throws Error when a newer version of the gateway wrote it. */
  read(line: string): void {
    // Quotes inside values are escaped, so a second head means two joined lines. A power loss leaves NULs.
    if (line.includes(RECORD_HEAD, 1) || line.includes('\0')) this.damagedLines++
    else if (line.startsWith(REQUEST_HEAD)) this.#readRequest(line)
    else if (line.startsWith(RESPONSE_HEAD)) this.#readResponse(line)
    else if (line.startsWith(START_HEAD) || line.startsWith(STOP_HEAD)) this.#readCount(line)
    else if (line.startsWith(FOREIGN_HEAD)) addForeignEnd(this.ends, utf8(line))
    else if (!line.startsWith(RECORD_HEAD) || !line.endsWith('}')) this.damagedLines++
  }

  lines(): string[] {
    return this.#requests.toReversed().map((line) => `${line}\n`)
  }

  missing(): number {
    return this.found || this.#expected === undefined
      ? 0
      : Math.max(0, this.#expected - this.#requests.length)
  }

  #readRequest(line: string): void {
    const key = keyOf(line)
    const responses = key === undefined ? undefined : this.#responses.get(key)
    if (key !== undefined && responses !== undefined) {
      this.#responseCount--
      if (responses === 1) this.#responses.delete(key)
      else this.#responses.set(key, responses - 1)
      return
    }
    const text = utf8(line)
    if (parsed(text) === undefined) {
      this.damagedLines++
      return
    }
    this.#requests.push(text)
    // A damaged line may have been a response, and then the count is reached too early.
    this.found = this.#requests.length === this.#expected && this.damagedLines === 0
  }

  #readResponse(line: string): void {
    const slice = keyOf(line)
    if (slice === undefined) {
      this.damagedLines++
      return
    }
    const key = ownText(slice)
    this.#responses.set(key, (this.#responses.get(key) ?? 0) + 1)
    this.#responseCount++
  }

  #readCount(line: string): void {
    const counted: CountLine | undefined = parsed(utf8(line))
    if (counted === undefined || !Number.isSafeInteger(counted.open)) {
      this.damagedLines++
      return
    }
    if (Number(counted.format) > TRAIL_FORMAT) {
      throw new Error(
        `it was written by a newer version of the gateway: its format is ${counted.format}, and this version reads up to ${TRAIL_FORMAT}`,
      )
    }
    if (typeof counted.continues === 'string') this.continues = counted.continues
    const open = Number(counted.open)
    // Responses whose requests have not been read belong to requests before this line.
    const remaining = open - this.#responseCount
    this.#expected = this.#requests.length + Math.max(0, remaining)
    this.found = open === 0 || (remaining <= 0 && this.damagedLines === 0)
  }
}

function keyOf(line: string): string | undefined {
  return line.endsWith('}') ? pairKeyOf(line) : undefined
}

/** @param line AUDIT_FOREIGN, which others may have written */
export function addForeignEnd(ends: Map<unknown, number>, line: string): void {
  const { inode, at }: { inode?: unknown; at?: unknown } = parsed(line) ?? {}
  if (typeof at === 'number') ends.set(inode, at)
}

export function parsed(text: string): object | undefined {
  return text.length > RECORD_MAX_BYTES ? undefined : (parsedJson(text) as object | undefined)
}
