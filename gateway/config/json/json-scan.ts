import { type ParseErrorCode, printParseErrorCode, visit } from 'jsonc-parser'
import { childPath } from './json-path.ts'

/** The place of each value, and repeated keys, which parsing loses. */
export interface JsonScan {
  /** JSON path → offset of its key or, in an array, of its value. Of a key that is written twice, that of the last. */
  readonly offsets: ReadonlyMap<string, number>
  /** Offset of the first of the keys. */
  readonly repeated: readonly { readonly path: string; readonly first: number }[]
}

export interface ScannedJson extends JsonScan {
  readonly value: unknown
}

/** The first place where a text is not JSON. */
export interface JsonSyntaxFault {
  /** In UTF-16 code units; of a fault within a text, where the text begins. */
  readonly offset: number
  readonly reason: string
}

/** Deeper than any configuration; shallower than the stack. */
export const MAX_DEPTH = 64
/** The longest lists that the schemas allow, with every key in every row, have fewer. */
export const MAX_VALUES = 250_000
/** Characters of what stands at a fault. What is longer is not shown: it may be a secret, or as long as the file. */
const MAX_SHOWN = 7

/** By the parser's names of faults: what the grammar wants. What stands there instead is told too. */
const EXPECTATIONS: Readonly<Record<string, string>> = {
  PropertyNameExpected: 'expected a key between double quotes',
  ValueExpected: 'expected a value',
  ColonExpected: 'expected ":" after the key',
  CommaExpected: 'expected ","',
  CloseBraceExpected: 'expected "}"',
  CloseBracketExpected: 'expected "]"',
  EndOfFileExpected: 'nothing more may follow here',
}
/** By the parser's names of faults, where what stands there says nothing. */
const REASONS: Readonly<Record<string, string>> = {
  InvalidCommentToken: 'comments are not allowed in JSON',
  UnexpectedEndOfString: 'the closing quote of a text is missing in its line',
  UnexpectedEndOfNumber: 'the digits of a number are missing',
  InvalidUnicode: '"\\u" comes without four hexadecimal digits in a text',
  InvalidEscapeCharacter: '"\\" begins no known escape in a text; a backslash itself is written "\\\\"',
  InvalidCharacter: 'a control character stands in a text',
}

class Unexpected extends Error {}

/**
 * Scans a JSON text (RFC 8259) of at most 64 levels. Accepts exactly what `JSON.parse` does, but keeps the places and the
 * repeated keys, of which `JSON.parse` uses only the last.
 */
export function scanJson(text: string): JsonScan | JsonSyntaxFault {
  const notes = new Notes()
  let last = 0
  // An exception is what ends the parser's visit.
  const at = (offset: number): number => {
    last = offset
    return offset
  }
  try {
    visit(
      text,
      {
        onObjectBegin: (offset) => notes.begin(at(offset), new Map()),
        onObjectProperty: (key, offset) => notes.key(at(offset), key),
        onObjectEnd: () => notes.end(),
        onArrayBegin: (offset) => notes.begin(at(offset), undefined),
        onArrayEnd: () => notes.end(),
        onLiteralValue: (_value, offset) => notes.value(at(offset)),
        onError: (code, offset, length) => {
          at(offset)
          throw new Unexpected(reasonOf(code, { text, offset, length }))
        },
      },
      { disallowComments: true },
    )
    return notes
  } catch (error) {
    if (!(error instanceof Unexpected)) throw error
    return { offset: last, reason: error.message }
  }
}

/** An object or array that has begun and not ended. */
interface Open {
  readonly path: string
  /** Path of each key so far → its offset; for an object. */
  readonly keys: Map<string, number> | undefined
  /** Path of the last key; for an object. */
  child: string
  /** Number of values that have begun; for an array. */
  count: number
}

class Notes implements JsonScan {
  readonly offsets = new Map<string, number>()
  readonly repeated: { path: string; first: number }[] = []
  readonly #open: Open[] = []
  #values = 0

  begin(offset: number, keys: Open['keys']): void {
    this.#open.push({ path: this.value(offset), keys, child: '', count: 0 })
  }

  end(): void {
    this.#open.pop()
  }

  key(offset: number, key: string): void {
    const inside = this.#open.at(-1)
    if (inside?.keys === undefined) return
    inside.child = childPath(inside.path, key)
    const first = inside.keys.get(inside.child)
    if (first === undefined) inside.keys.set(inside.child, offset)
    else this.repeated.push({ path: inside.child, first })
    this.offsets.set(inside.child, offset)
  }

  /** Notes that a value begins; returns its path. */
  value(offset: number): string {
    this.#values += 1
    if (this.#values > MAX_VALUES)
      throw new Unexpected(`there must not be more than ${MAX_VALUES} values in a file`)
    if (this.#open.length >= MAX_DEPTH)
      throw new Unexpected(`nothing may be nested deeper than ${MAX_DEPTH} levels`)
    const path = this.#nextPath()
    if (!this.offsets.has(path)) this.offsets.set(path, offset)
    return path
  }

  #nextPath(): string {
    const inside = this.#open.at(-1)
    if (inside === undefined) return '$'
    return inside.keys === undefined ? childPath(inside.path, inside.count++) : inside.child
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
