import {
  pairKeyOf,
  RECORD_HEAD,
  REQUEST_HEAD,
  RESPONSE_HEAD,
  START_HEAD,
  STOP_HEAD,
} from '../../audit/audit-records.ts'
import { plural } from '../../terminal/printable.ts'
import { type Place, showPlace } from './finding.ts'
import type { ReadLines } from './read-lines.ts'

const READ_BACK_HEAD = '{"type":"AUDIT_READ_BACK",'
/** Bounds memory: no gateway leaves so many requests open. */
const OPEN_MAX = 1_000_000

/** Tells whether the gateway wrote what it should. Seals prove only that nobody changed the lines. */
export class RecordOrder {
  readonly #warnings: Warnings
  readonly #open = new Map<string, number>()
  readonly #openMax: number
  /** Open requests beyond `#openMax`. */
  #uncertain = 0
  #isFull = false
  #isStopped = false
  pairs = 0

  constructor(warnings: Warnings, openMax = OPEN_MAX) {
    this.#warnings = warnings
    this.#openMax = openMax
  }

  get open(): number {
    let open = this.#uncertain
    for (const count of this.#open.values()) open += count
    return open
  }

  read(line: string): void {
    if (line.startsWith(RESPONSE_HEAD)) this.#readResponse(line)
    else if (line.startsWith(REQUEST_HEAD)) this.#readRequest(line)
    else if (line.startsWith(START_HEAD)) this.#isStopped = false
    else if (line.startsWith(STOP_HEAD)) this.#isStopped = true
    else if (line.startsWith(READ_BACK_HEAD)) this.#readReadBack(line)
    else if (!line.startsWith(RECORD_HEAD)) this.#warnings.add('is not a record')
    if (!line.endsWith('}')) this.#warnings.add('is not a whole record')
  }

  #readRequest(line: string): void {
    const key = pairKeyOf(line)
    if (key === undefined) return
    const count = this.#open.get(key)
    if (count !== undefined || this.#open.size < this.#openMax) this.#open.set(key, (count ?? 0) + 1)
    else this.#countOnly()
    if (this.#isStopped) this.#warnings.add('a request was recorded between AUDIT_STOP and AUDIT_START')
  }

  #readResponse(line: string): void {
    const key = pairKeyOf(line)
    if (key === undefined) return
    const count = this.#open.get(key)
    if (count !== undefined && count > 1) this.#open.set(key, count - 1)
    else if (count !== undefined) this.#open.delete(key)
    else if (this.#uncertain > 0) this.#uncertain--
    else this.#warnings.addDoubtful('a response without its request')
    this.pairs++
  }

  #readReadBack(line: string): void {
    const [, records = ''] = /"records":(\d{1,15})}$/.exec(line) ?? []
    this.#warnings.add(
      `the gateway had to read ${plural(Number(records), 'record')} before this line from the file to seal ${records === '1' ? 'it' : 'them'}: the seal does not show whether somebody had added or changed some of them`,
    )
  }

  #countOnly(): void {
    if (this.#uncertain++ > 0 || this.#isFull) return
    this.#isFull = true
    this.#warnings.add(
      `more than ${plural(this.#openMax, 'request')} have no response yet: those from here on are only counted`,
    )
  }
}

const MAX = 20

export class Warnings {
  readonly #lines: ReadLines
  readonly #texts: string[] = []
  /** Warnings that do not hold if something stood before the first line. */
  readonly #doubtful: string[] = []

  constructor(lines: ReadLines) {
    this.#lines = lines
  }

  /** @param place default: that of the last line that was read. Null: the warning is about no line */
  add(text: string, place?: Place | null): void {
    this.#push(this.#texts, text, place)
  }

  addDoubtful(text: string): void {
    this.#push(this.#doubtful, text)
  }

  all(isFromMiddle: boolean): readonly string[] {
    return isFromMiddle ? this.#texts : [...this.#texts, ...this.#doubtful].slice(0, MAX)
  }

  #push(texts: string[], text: string, place?: Place | null): void {
    const at = place === undefined ? this.#lines.place(this.#lines.count - 1) : place
    if (texts.length < MAX) texts.push(at ? `${showPlace(at)}: ${text}` : text)
  }
}
