import { ownText } from '../edge/syntax/characters.ts'
import type { Field } from '../edge/syntax/field.ts'

/** Fields of several requests, whose text is made once. Immutable. */
export class CommonFields {
  readonly fields: readonly Field[]
  #written: WrittenFields | undefined = undefined
  #isFlat = false

  constructor(fields: readonly Field[]) {
    this.fields = fields
  }

  get written(): WrittenFields {
    if (this.#written === undefined) this.#written = writtenFields(this.fields)
    else if (!this.#isFlat) {
      // V8 keeps a concatenation in parts, and would join them for each request.
      this.#written = { ...this.#written, lines: ownText(this.#written.lines) }
      this.#isFlat = true
    }
    return this.#written
  }
}

/** Fields about one connection. Only http1-exchange.ts may write them. */
export const CONNECTION_FIELDS: ReadonlySet<string> = new Set([
  'connection',
  'expect',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
])

/** Host and Content-Length stand apart, because they route and frame the request. */
export interface WrittenFields {
  /** Each with its CR LF. */
  readonly lines: string
  readonly host: string | undefined
  readonly contentLength: string | undefined
}

/** @throws TypeError when they cannot be sent */
export function writtenFields(fields: readonly Field[]): WrittenFields {
  let lines = ''
  let host: string | undefined
  let contentLength: string | undefined
  for (const { lower, value, line } of fields) {
    if (CONNECTION_FIELDS.has(lower)) throw new TypeError(`${lower} belongs to one connection`)
    if (lower === 'host') host = theOnly('Host', host, value)
    else if (lower === 'content-length') contentLength = theOnly('Content-Length', contentLength, value)
    else lines += line
  }
  return { lines, host, contentLength }
}

export function theOnly(
  name: string,
  one: string | undefined,
  other: string | undefined,
): string | undefined {
  if (one !== undefined && other !== undefined) throw new TypeError(`more than one ${name}`)
  return one ?? other
}
