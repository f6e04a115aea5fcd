import { isToken } from '../syntax/characters.ts'
import { hasOption } from '../syntax/connection-options.ts'
import type { Field } from '../syntax/field.ts'
import { type HeadReader, isTextBetween } from '../syntax/head-parser.ts'
import { KNOWN_METHODS, MAX_METHOD_CHARS } from '../syntax/status-codes.ts'

const NO_REQUEST_LINE = 'no HTTP/1 request line'
const SPACE = 0x20
const VERSION = ' HTTP/1.'
/** The bytes from the space behind the target to the end of the line. */
const VERSION_LENGTH = VERSION.length + 1

/** The request line (RFC 9112 section 3) and the options of Connection. */
export class RequestLines implements HeadReader {
  readonly noStartLine = NO_REQUEST_LINE
  /** `-` until the request line has been read so far. */
  method = '-'
  /** As received; empty until the request line has been read. */
  target = ''
  version: '1.0' | '1.1' = '1.1'
  /** Connection has the option `close`, `keep-alive`, `upgrade`. */
  closes = false
  keeps = false
  upgrades = false

  begin(): void {
    this.method = '-'
    this.target = ''
    this.version = '1.1'
  }

  forgetFields(): void {
    this.closes = false
    this.keeps = false
    this.upgrades = false
  }

  mayBegin(text: string): boolean {
    const space = text.indexOf(' ')
    // A longer method is looked at when it is complete.
    return space < 0
      ? isToken(text.slice(0, MAX_METHOD_CHARS).replace('\r', ''))
      : this.#takeMethod(text.slice(0, space))
  }

  /** Also of a line that is refused for what follows, because the response to any HEAD has no body. */
  #takeMethod(method: string): boolean {
    if (!KNOWN_METHODS.has(method) && !isToken(method)) return false
    this.method = method.slice(0, MAX_METHOD_CHARS)
    return true
  }

  startLine(all: string, start: number, end: number): string | undefined {
    const space = all.indexOf(' ', start)
    const method = all.slice(start, Math.max(start, space))
    const versionAt = end - VERSION_LENGTH
    const minor = all[end - 1] ?? ''
    const isRequestLine =
      space > start &&
      this.#takeMethod(method) &&
      versionAt > space + 1 &&
      all.startsWith(VERSION, versionAt) &&
      minor >= '0' &&
      minor <= '9' &&
      isVisibleBetween(all, space + 1, versionAt)
    if (!isRequestLine) return NO_REQUEST_LINE
    this.target = all.slice(space + 1, versionAt)
    // RFC 9110 section 2.5: a higher minor version is read as the highest that is known.
    this.version = minor === '0' ? '1.0' : '1.1'
    return undefined
  }

  field({ lower, value }: Field): undefined {
    if (lower !== 'connection') return
    this.closes ||= hasOption(value, 'close')
    this.keeps ||= hasOption(value, 'keep-alive')
    this.upgrades ||= hasOption(value, 'upgrade')
  }
}

/** White space would let two readers see two different targets (RFC 9112 section 3). */
function isVisibleBetween(all: string, start: number, end: number): boolean {
  if (!isTextBetween(all, start, end)) return false
  for (let i = start; i < end; i++) if (all.charCodeAt(i) <= SPACE) return false
  return true
}
