import { childPath } from './json-path.ts'

/** What parsing loses: the line of each value, and repeated keys. */
export interface JsonScan {
  /** JSON path → line, from 1. Of a key that is written twice, the line of the last. */
  readonly lines: ReadonlyMap<string, number>
  readonly repeated: readonly {
    readonly path: string
    readonly lines: readonly [first: number, again: number]
  }[]
}

/** The first place where a text is not JSON. */
export interface JsonSyntaxFault {
  /** From 1. */
  readonly line: number
  /** From 1, in UTF-16 code units. */
  readonly column: number
  readonly reason: string
}

/** Deeper than any configuration; shallower than the stack. */
const MAX_DEPTH = 64
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const WORD = /[A-Za-z]+/y
const SPACE = /[ \t\r\n]*/y
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y

/** More than the longest lists that the schemas allow, with every key in every row. */
const MAX_VALUES = 250_000

class Unexpected extends Error {}

/**
 * Scans a JSON text (RFC 8259) of at most 64 levels. Accepts exactly what `JSON.parse` does, but keeps the lines and the
 * repeated keys, of which `JSON.parse` uses only the last.
 */
export function scanJson(text: string): JsonScan | JsonSyntaxFault {
  const scanner = new JsonScanner(text)
  try {
    scanner.document()
    return scanner
  } catch (error) {
    if (!(error instanceof Unexpected)) throw error
    return { ...scanner.position(), reason: error.message }
  }
}

class JsonScanner implements JsonScan {
  readonly lines = new Map<string, number>()
  readonly repeated: { path: string; lines: [number, number] }[] = []
  readonly #text: string
  #at = 0
  #values = 0
  #line = 1
  #lineStart = 0
  /** Looked up once a line: a long file may have only one. */
  #lineEnd: number

  constructor(text: string) {
    this.#text = text
    this.#lineEnd = lineEnd(text, 0)
  }

  position(): { line: number; column: number } {
    this.#countLines()
    return { line: this.#line, column: this.#at - this.#lineStart + 1 }
  }

  document(): void {
    this.#space()
    this.#value('$', 0)
    this.#space()
    if (this.#at < this.#text.length) this.#expected('nothing more may follow here')
  }

  #value(path: string, depth: number): void {
    this.#values += 1
    if (this.#values > MAX_VALUES) this.#fail(`there must not be more than ${MAX_VALUES} values in a file`)
    if (depth >= MAX_DEPTH) this.#fail(`nothing may be nested deeper than ${MAX_DEPTH} levels`)
    if (!this.lines.has(path)) this.lines.set(path, this.position().line)
    const first = this.#text[this.#at]
    if (first === '{') this.#object(path, depth)
    else if (first === '[') this.#array(path, depth)
    else if (first === '"') this.#string()
    else if (!this.#literal() && !this.#match(NUMBER)) this.#expected('expected a value')
  }

  #object(path: string, depth: number): void {
    const keys = new Map<string, number>()
    this.#list('}', () => {
      if (this.#text[this.#at] !== '"') this.#expected('expected a key between double quotes')
      const { line } = this.position()
      const child = childPath(path, this.#string())
      const first = keys.get(child)
      if (first === undefined) keys.set(child, line)
      else this.repeated.push({ path: child, lines: [first, line] })
      this.lines.set(child, line)
      this.#space()
      if (this.#text[this.#at] !== ':') this.#expected('expected ":" after the key')
      this.#at += 1
      this.#space()
      this.#value(child, depth + 1)
    })
  }

  #array(path: string, depth: number): void {
    let index = 0
    this.#list(']', () => {
      this.#value(childPath(path, index), depth + 1)
      index += 1
    })
  }

  #list(close: string, item: () => void): void {
    this.#at += 1
    this.#space()
    if (this.#text[this.#at] === close) {
      this.#at += 1
      return
    }
    for (;;) {
      item()
      this.#space()
      const next = this.#text[this.#at]
      if (next !== ',' && next !== close) this.#expected(`expected "," or "${close}"`)
      this.#at += 1
      if (next === close) return
      this.#space()
      if (this.#text[this.#at] === close) this.#fail(`a comma must not stand before "${close}"`)
    }
  }

  /** The string's value; the caller has seen its opening quote. */
  #string(): string {
    const start = this.#at
    this.#at += 1
    for (let next = this.#text[this.#at]; next !== '"'; next = this.#text[this.#at]) {
      if (next === undefined) this.#fail('the closing quote of a text is missing')
      if (next < ' ')
        this.#fail('a line break or control character stands in a text: is its closing quote missing?')
      if (next === '\\') {
        if (!this.#match(ESCAPE))
          this.#fail('"\\" begins no known escape here; a backslash itself is written "\\\\"')
      } else this.#at += 1
    }
    this.#at += 1
    return JSON.parse(this.#text.slice(start, this.#at))
  }

  #literal(): boolean {
    WORD.lastIndex = this.#at
    const word = WORD.exec(this.#text)?.[0]
    if (word !== 'true' && word !== 'false' && word !== 'null') return false
    this.#at += word.length
    return true
  }

  #match(form: RegExp): boolean {
    form.lastIndex = this.#at
    if (!form.test(this.#text)) return false
    this.#at = form.lastIndex
    return true
  }

  #space(): void {
    this.#match(SPACE)
  }

  #countLines(): void {
    while (this.#lineEnd < this.#at) {
      this.#line += 1
      this.#lineStart = this.#lineEnd + 1
      this.#lineEnd = lineEnd(this.#text, this.#lineStart)
    }
  }

  #expected(expectation: string): never {
    const next = this.#text[this.#at]
    if (next === undefined) this.#fail(`${expectation}, but the file ends here`)
    if (next === '/') this.#fail(`${expectation}; comments are not allowed in JSON`)
    if (next === "'") this.#fail(`${expectation}; text stands between double quotes in JSON`)
    WORD.lastIndex = this.#at
    const seen = WORD.exec(this.#text)?.[0] ?? String.fromCodePoint(this.#text.codePointAt(this.#at) ?? 0)
    this.#fail(`${expectation}, but found ${JSON.stringify(seen)}`)
  }

  #fail(reason: string): never {
    throw new Unexpected(reason)
  }
}

/** Where the line that begins there ends. */
function lineEnd(text: string, from: number): number {
  const end = text.indexOf('\n', from)
  return end < 0 ? text.length : end
}
