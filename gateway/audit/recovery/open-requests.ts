import { kept, utf8 } from '../../storage/lines-backward.ts'
import { pairKeyOf } from '../audit-records.ts'

/** Line heads as `records.ts` writes them. */
const RECORD_HEAD = '{"type":"'
const REQUEST_HEAD = '{"type":"API_REQUEST",'
const RESPONSE_HEAD = '{"type":"API_RESPONSE",'
const START_HEAD = '{"type":"AUDIT_START",'
const STOP_HEAD = '{"type":"AUDIT_STOP",'

/** A line that says how many requests before it were open. */
interface CountLine {
  readonly open?: unknown
  readonly continues?: unknown
}

/**
 * The API_REQUEST lines without an API_RESPONSE in a trail that is read backwards, line by line, through `read`.
 *
 * A pair has the same key (`pairKeyOf`); `records.ts` writes equal facts as equal bytes, so the bytes are compared and
 * most lines need no JSON parser. The memory is that of the exchanges that were open at once.
 */
export class OpenRequests {
  /** No line further back can hold another open request. */
  found = false
  /** Lines so far that are no record. */
  damagedLines = 0
  /** Of the file being read: inode of the rotated file that it goes on from. */
  continues: string | undefined = undefined

  /** Responses by key whose request has not been reached. */
  readonly #answers = new Map<string, number>()
  #answerCount = 0
  /** Last first. */
  readonly #requests: string[] = []
  /** How many open requests there are in all, when a line has said so. */
  #expected: number | undefined

  /** @param expected how many are open in all, when that is known beforehand. */
  constructor(expected?: number) {
    this.#expected = expected
    this.found = expected === 0
  }

  /** What follows belongs to the file before, of which nothing is known. */
  beginFile(): void {
    this.continues = undefined
  }

  /** @param line a latin1 slice without its `\n`. */
  read(line: string): void {
    // A quote inside a value is escaped, so a second head is a second record: two lines that ran into one another.
    if (line.includes(RECORD_HEAD, 1)) this.damagedLines++
    else if (line.startsWith(REQUEST_HEAD)) this.#readRequest(line)
    else if (line.startsWith(RESPONSE_HEAD)) this.#readResponse(line)
    else if (line.startsWith(START_HEAD) || line.startsWith(STOP_HEAD)) this.#readMark(line)
    else if (!line.startsWith(RECORD_HEAD) || !line.endsWith('}')) this.damagedLines++
  }

  /** Whole API_REQUEST lines with their `\n`, in the order of the trail. */
  lines(): string[] {
    return this.#requests.toReversed().map((line) => `${line}\n`)
  }

  /** Open requests that a line has counted and that were not among those read. */
  missing(): number {
    return this.found || this.#expected === undefined
      ? 0
      : Math.max(0, this.#expected - this.#requests.length)
  }

  #readRequest(line: string): void {
    const key = keyOf(line)
    const answers = key === undefined ? undefined : this.#answers.get(key)
    if (key !== undefined && answers !== undefined) {
      this.#answerCount--
      if (answers === 1) this.#answers.delete(key)
      else this.#answers.set(key, answers - 1)
      return
    }
    const text = utf8(line)
    if (parsed(text) === undefined) {
      this.damagedLines++
      return
    }
    this.#requests.push(text)
    // Damage may have hidden an answer, and then the count is reached too early.
    this.found = this.#requests.length === this.#expected && this.damagedLines === 0
  }

  #readResponse(line: string): void {
    const slice = keyOf(line)
    if (slice === undefined) {
      this.damagedLines++
      return
    }
    const key = kept(slice)
    this.#answers.set(key, (this.#answers.get(key) ?? 0) + 1)
    this.#answerCount++
  }

  #readMark(line: string): void {
    const mark: CountLine | undefined = parsed(utf8(line))
    if (mark === undefined || !Number.isSafeInteger(mark.open)) {
      this.damagedLines++
      return
    }
    if (typeof mark.continues === 'string') this.continues = mark.continues
    const open = Number(mark.open)
    // Answers without a request up to here belong to requests before this line.
    const unanswered = open - this.#answerCount
    this.#expected = this.#requests.length + Math.max(0, unanswered)
    this.found = open === 0 || (unanswered <= 0 && this.damagedLines === 0)
  }
}

/** Undefined for a line that was cut short. */
function keyOf(line: string): string | undefined {
  return line.endsWith('}') ? pairKeyOf(line) : undefined
}

function parsed(text: string): object | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
