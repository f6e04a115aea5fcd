import {
  type JSONPath,
  type JSONVisitor,
  type ParseErrorCode,
  printParseErrorCode,
  visit,
} from 'jsonc-parser'
import { childPath } from './json-path.ts'

/** The place of each value, and the repeated keys: `JSON.parse` loses both. */
export interface JsonScan {
  /** JSON path → offset of its key or, in an array, of its value. A key that is written twice has its last place. */
  readonly offsets: ReadonlyMap<string, number>
  /** Keys that are written twice, with their first offset. */
  readonly repeated: readonly { readonly path: string; readonly first: number }[]
}

export interface ScannedJson extends JsonScan {
  readonly value: unknown
}

export interface JsonSyntaxFault {
  /** In UTF-16 code units; a fault within a text has the place where the text begins. */
  readonly offset: number
  readonly reason: string
}

/** Deeper than any configuration; shallower than the stack. */
export const MAX_DEPTH = 64
/** More than the longest lists that the schemas allow. */
export const MAX_VALUES = 250_000
/** Longer text at a fault is not shown: it may be a secret. */
const MAX_SHOWN = 7

/** The beginning of the sentence, by the parser's name of a fault. */
const EXPECTATIONS: Readonly<Record<string, string>> = {
  PropertyNameExpected: 'expected a key between double quotes',
  ValueExpected: 'expected a value',
  ColonExpected: 'expected ":" after the key',
  CommaExpected: 'expected ","',
  CloseBraceExpected: 'expected "}"',
  CloseBracketExpected: 'expected "]"',
  EndOfFileExpected: 'nothing more may follow here',
}
/** The whole sentence, by the parser's name of a fault. */
const REASONS: Readonly<Record<string, string>> = {
  InvalidCommentToken: 'comments are not allowed in JSON',
  UnexpectedEndOfString: 'the closing quote of a text is missing in its line',
  UnexpectedEndOfNumber: 'the digits of a number are missing',
  InvalidUnicode: '"\\u" comes without four hexadecimal digits in a text',
  InvalidEscapeCharacter: '"\\" begins no known escape in a text; a backslash itself is written "\\\\"',
  InvalidCharacter: 'a control character stands in a text',
}

class Unexpected extends Error {}

/** Scans a JSON text (RFC 8259). Accepts what `JSON.parse` does, within the bounds above. */
export function scanJson(text: string): JsonScan | JsonSyntaxFault {
  const offsets = new Map<string, number>()
  const repeated: { path: string; first: number }[] = []
  let values = 0
  let last = 0
  const pathOf = (steps: JSONPath) => steps.reduce<string>(childPath, '$')
  const begin = (offset: number, steps: JSONPath) => {
    last = offset
    values += 1
    if (values > MAX_VALUES)
      throw new Unexpected(`there must not be more than ${MAX_VALUES} values in a file`)
    if (steps.length >= MAX_DEPTH)
      throw new Unexpected(`nothing may be nested deeper than ${MAX_DEPTH} levels`)
    const path = pathOf(steps)
    if (!offsets.has(path)) offsets.set(path, offset)
  }
  const visitor: JSONVisitor = {
    onObjectBegin: (offset, _length, _line, _character, steps) => begin(offset, steps()),
    onArrayBegin: (offset, _length, _line, _character, steps) => begin(offset, steps()),
    onLiteralValue: (_value, offset, _length, _line, _character, steps) => begin(offset, steps()),
    onObjectProperty: (key, offset, _length, _line, _character, steps) => {
      last = offset
      const path = childPath(pathOf(steps()), key)
      const first = offsets.get(path)
      const again = repeated.at(-1)?.path
      const isBelow =
        again !== undefined && [`${again}.`, `${again}[`].some((above) => path.startsWith(above))
      if (first !== undefined && !isBelow) repeated.push({ path, first })
      offsets.set(path, offset)
    },
    onError: (code, offset, length) => {
      last = offset
      throw new Unexpected(reasonOf(code, { text, offset, length }))
    },
  }
  try {
    visit(text, visitor, { disallowComments: true })
    return { offsets, repeated }
  } catch (error) {
    // Only an exception ends the parser's visit.
    if (!(error instanceof Unexpected)) throw error
    return { offset: last, reason: error.message }
  }
}

interface Token {
  readonly text: string
  readonly offset: number
  readonly length: number
}

function reasonOf(code: ParseErrorCode, { text, offset, length }: Token): string {
  const name = printParseErrorCode(code)
  const reason = REASONS[name]
  if (reason !== undefined) return reason
  const found = text.slice(offset, offset + length)
  const shown = length > MAX_SHOWN ? undefined : JSON.stringify(found)
  const expectation = EXPECTATIONS[name]
  if (expectation === undefined) {
    return `unexpected ${shown ?? 'word'}; keys and texts stand between double quotes in JSON`
  }
  if (found === '') return `${expectation}, but the file ends here`
  const closes = found === '}' || found === ']'
  if (closes && text.slice(0, offset).trimEnd().endsWith(','))
    return `a comma must not stand before "${found}"`
  return shown === undefined ? expectation : `${expectation}, but found ${shown}`
}
