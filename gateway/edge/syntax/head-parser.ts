import { CHARACTERS, isSpace, TEXT, TOKEN } from './characters.ts'
import { Field } from './field.ts'

/** Bytes decoded at a time. Few heads are longer, and decoding bytes of the body is useless. */
const PIECE_BYTES = 2048
const CR = 0x0d
const SPACE = 0x20
const COLON = 0x3a
/** Limit of the lines kept for the next head, so that a client cannot fill memory with them. */
const MAX_KNOWN = 32

export interface HeadReader {
  readonly noStartLine: string
  /** True when a valid first line may begin with this text. */
  mayBegin(text: string): boolean
  /** Takes the first line. @returns why it is refused; undefined when it is valid */
  startLine(all: string, start: number, end: number): string | undefined
  /** Forgets what the previous head's fields said: the next ones differ. */
  forgetFields(): void
  /** Takes the next field. @returns as `startLine` does */
  field(field: Field): string | undefined
}

/**
 * Reads heads and trailers in pieces (RFC 9112 sections 2 to 5). Strict: lines end with CR LF alone, a folded
 * line is refused, the colon follows the name directly, and there are no control characters.
 * When all field lines equal those of the previous head, they are not parsed again: both heads share one
 * list, so that what was made of it can be used again. Otherwise a line that equals the line at the same place
 * of the previous head gives the same `Field`.
 */
export class HeadParser {
  fault: string | undefined = undefined
  /** True when the fault is one of size. */
  tooLarge = false
  /** True once the empty line has come. */
  whole = false
  /** Fields in order, without trailers. Two heads share a list only if all their fields are the same. */
  fields: Field[] = []

  readonly #reader: HeadReader
  readonly #maxBytes: number
  readonly #maxFields: number
  #stage: 'start line' | 'fields' | 'trailers' = 'start line'
  #bytes = 0
  #count = 0
  #known: Field[] = []
  /** The lines of `#known` with the empty line; '' if they were too many, came in pieces, or a different head came. */
  #knownLines = ''
  /** Where the fields begin in the present text; -1: in an earlier text. */
  #fieldsAt = -1
  #lines = ''
  #carried = ''

  constructor(
    reader: HeadReader,
    { maxBytes, maxFields }: { readonly maxBytes: number; readonly maxFields: number },
  ) {
    this.#reader = reader
    this.#maxBytes = maxBytes
    this.#maxFields = maxFields
  }

  begin(): void {
    if (this.whole) this.rest()
    else this.fields = []
    this.#restart('start line')
  }

  /** Trailers are checked like fields, then dropped. */
  beginTrailers(): void {
    this.#restart('trailers')
  }

  #restart(stage: 'start line' | 'trailers'): void {
    this.fault = undefined
    this.tooLarge = false
    this.whole = false
    this.#stage = stage
    this.#bytes = 0
    this.#count = 0
    this.#fieldsAt = -1
    this.#carried = ''
  }

  readBytes(bytes: Buffer, from: number, to: number): number {
    return this.read(bytes.toString('latin1', from, Math.min(to, from + PIECE_BYTES)))
  }

  /** Keeps, between two heads, only the fields that may come again. */
  rest(): void {
    const { fields } = this
    this.fields = []
    if (fields.length === 0) return
    const isLong = fields.length > MAX_KNOWN
    this.#known = isLong ? fields.slice(0, MAX_KNOWN) : fields
    this.#knownLines = isLong ? '' : this.#lines
  }

  /** True when the next head may get the same list of fields. Ask between two heads. */
  get mayRepeat(): boolean {
    return this.#knownLines !== ''
  }

  /** @param text latin1 @returns how many bytes belong to the head: all of them until it ends or has a fault */
  read(text: string): number {
    const carried = this.#carried.length
    const all = carried === 0 ? text : this.#carried + text
    let start = 0
    for (let from = carried; ; from = start) {
      if (from === start) from = start = this.#skipKnown(all, start)
      if (this.whole || this.fault !== undefined) {
        this.#carried = ''
        return start - carried
      }
      const feed = all.indexOf('\n', from)
      if (feed < 0) {
        this.#carry(all, start, from)
        return text.length
      }
      this.#bytes += feed + 1 - start
      if (this.#bytes > this.#maxBytes) this.#overflow(`a head beyond ${this.#maxBytes} bytes`)
      else if (feed === start || all.charCodeAt(feed - 1) !== CR)
        this.fault = 'a line feed without its carriage return'
      else this.#line(all, start, feed - 1)
      start = feed + 1
      if (this.whole || this.fault !== undefined) {
        this.#carried = ''
        return start - carried
      }
    }
  }

  /** @param from first byte in `all` that has not been checked */
  #carry(all: string, start: number, from: number): void {
    this.#carried = all.slice(start)
    this.#fieldsAt = -1
    if (this.#bytes + this.#carried.length > this.#maxBytes)
      this.#overflow(`a head beyond ${this.#maxBytes} bytes`)
    if (this.#stage === 'start line' && !this.#reader.mayBegin(this.#carried))
      this.fault = this.#reader.noStartLine
    // If the last checked byte is a carriage return, its line feed must be next.
    const last = all.length - 1
    for (let i = Math.max(start, from - 1); i <= last; i++) {
      if (!(bitsAt(all, i) & TEXT) && !(i === last && all.charCodeAt(i) === CR))
        this.fault = 'a control character in the head'
    }
  }

  #line(all: string, start: number, end: number): void {
    if (this.#stage === 'start line') {
      this.#stage = 'fields'
      this.fault = this.#reader.startLine(all, start, end)
    } else if (start === end) this.#end(all, end)
    else this.#field(all, start, end)
  }

  /** @param end where the empty line begins */
  #end(all: string, end: number): void {
    this.whole = true
    if (this.#stage === 'fields') this.#lines = this.#fieldsAt < 0 ? '' : all.slice(this.#fieldsAt, end + 2)
  }

  /** RFC 9112 section 5. */
  #field(all: string, start: number, end: number): void {
    let colon = start
    // Stops at the carriage return at the latest.
    while (bitsAt(all, colon) & TOKEN) colon++
    if (colon === start || all.charCodeAt(colon) !== COLON) this.fault = 'a field without a proper name'
    let from = colon + 1
    while (from < end && isSpace(all.charCodeAt(from))) from++
    let to = end
    while (to > from && isSpace(all.charCodeAt(to - 1))) to--
    if (!isTextBetween(all, from, to)) this.fault ??= 'a control character in a field'
    this.#count += 1
    if (this.#count > this.#maxFields) this.#overflow(`more than ${this.#maxFields} fields`)
    if (this.fault !== undefined || this.#stage === 'trailers') return
    const isPlain = from === colon + 2 && to === end && all.charCodeAt(colon + 1) === SPACE
    const line = isPlain ? all.slice(start, end + 2) : undefined
    this.#take(new Field(all.slice(start, colon), all.slice(from, to), line))
  }

  #take(field: Field): void {
    this.fields.push(field)
    this.fault = this.#reader.field(field)
  }

  /** Takes the lines that equal those of the previous head. @returns where the first different line begins */
  #skipKnown(all: string, from: number): number {
    let start = from
    if (this.#stage !== 'fields') return start
    if (this.#count === 0) {
      if (this.#repeats(all, from)) return from + this.#knownLines.length
      this.#knownLines = ''
      this.#reader.forgetFields()
      this.#fieldsAt = from
    }
    while (this.#count < MAX_KNOWN) {
      const known = this.#known[this.#count]
      if (known === undefined) return start
      // V8 compares whole strings many bytes at a time, but one character at a time in `startsWith`.
      const end = start + known.line.length
      if (all.slice(start, end) !== known.line) return start
      start = end
      this.#bytes += known.line.length
      this.#count += 1
      if (this.#bytes > this.#maxBytes) this.#overflow(`a head beyond ${this.#maxBytes} bytes`)
      else this.#take(known)
      if (this.fault !== undefined) return start
    }
    return start
  }

  #repeats(all: string, from: number): boolean {
    const lines = this.#knownLines
    if (lines === '' || all.slice(from, from + lines.length) !== lines) return false
    this.#bytes += lines.length
    if (this.#bytes > this.#maxBytes) this.#overflow(`a head beyond ${this.#maxBytes} bytes`)
    this.#lines = lines
    this.fields = this.#known
    this.whole = true
    return true
  }

  #overflow(fault: string): void {
    if (this.fault !== undefined) return
    this.fault = fault
    this.tooLarge = true
  }
}

/** The text is latin1, so every character is in the table. */
function bitsAt(all: string, at: number): number {
  return CHARACTERS[all.charCodeAt(at)] as number
}

/** @param all latin1 */
export function isTextBetween(all: string, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (!(bitsAt(all, i) & TEXT)) return false
  return true
}
