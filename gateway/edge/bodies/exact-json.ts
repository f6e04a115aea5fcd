import { isDeepStrictEqual } from 'node:util'
import { endOfText, parseCheckedJson } from './checked-json.ts'

/** With neither `source` nor `odd`, the text has no such member. */
export interface FoundMember {
  /** Text of its value, with numbers as they are written. */
  readonly source?: string
  /** A name that a service may take for a name in the pointer. They differ only in letter case or after a NUL. */
  readonly odd?: string
}

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g
const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/
/** A number with a longer exponent is compared as it is written. */
const MAX_EXPONENT_CHARS = 7
const SPACE = ' \t\n\r'

/** Makes a text for `memberIn` if `parseCheckedJson` accepts the bytes. */
export function checkedText(bytes: Buffer): { readonly text: string } | { readonly fault: string } {
  const checked = parseCheckedJson(bytes)
  return 'fault' in checked ? checked : { text: bytes.toString('utf8') }
}

/** Finds a member by a pointer (RFC 6901). @param json a checked text @param steps of `pointerSteps` */
export function memberIn(json: string, steps: readonly string[]): FoundMember {
  let at = afterSpace(json, 0)
  for (const step of steps) {
    const found = find(json, at, step)
    if (typeof found !== 'number') return found
    at = afterSpace(json, found)
  }
  return { source: json.slice(at, endOfValue(json, at)).trimEnd() }
}

/** @param opening start of a value; only objects and arrays have members */
function find(json: string, opening: number, step: string): number | FoundMember {
  const isObject = json[opening] === '{'
  let at = afterSpace(json, opening + 1)
  if ((!isObject && json[opening] !== '[') || json[at] === '}' || json[at] === ']') return {}
  const folded = fold(step)
  let found: number | undefined
  for (let index = 0; ; index++) {
    let name = String(index)
    if (isObject) {
      at = afterSpace(json, at)
      const end = endOfText(json, at)
      name = json.slice(at + 1, end)
      if (name.includes('\\')) name = JSON.parse(`"${name}"`)
      at = json.indexOf(':', end) + 1
    }
    if (name === step) found = at
    else if (isObject && fold(name) === folded) return { odd: name }
    if (!isObject && found !== undefined) return found
    at = endOfValue(json, at)
    if (json[at] !== ',') return found ?? {}
    at++
  }
}

function afterSpace(json: string, from: number): number {
  let at = from
  while (at < json.length && SPACE.includes(json[at] as string)) at++
  return at
}

/** Index of the comma or bracket behind a value, or the length. */
function endOfValue(json: string, from: number): number {
  let depth = 0
  for (let at = from; at < json.length; at++) {
    const character = json[at]
    if (character === '"') at = endOfText(json, at)
    else if (character === '[' || character === '{') depth++
    else if (character === ']' || character === '}') {
      if (depth === 0) return at
      depth--
    } else if (character === ',' && depth === 0) return at
  }
  return json.length
}

/** The name as a lenient service reads it. Go folds the long s and the Kelvin sign too; in C a NUL ends a name. */
function fold(name: string): string {
  return name.replace(/\0.*/s, '').toUpperCase().toLowerCase()
}

/** Finds a name that `fold` makes equal to another name of its object. */
export function twinIn(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const seen = new Set<string>()
  for (const [name, inner] of Object.entries(value)) {
    const folded = fold(name)
    const twin = seen.has(folded) ? name : twinIn(inner)
    if (twin !== undefined) return twin
    seen.add(folded)
  }
  return undefined
}

/** Compares two checked texts. Numbers are compared by their exact decimal value. */
export function isSameJson(one: string, other: string): boolean {
  return isDeepStrictEqual(compared(one), compared(other))
}

/** Parses JSON so that each text begins with `s`, and each number is a text that begins with `n`. */
function compared(json: string): unknown {
  return JSON.parse(
    json.replace(TOKEN, (token) => (token[0] === '"' ? `"s${token.slice(1)}` : `"n${decimalOf(token)}"`)),
  )
}

/** One spelling for each decimal value: `1e2`, `100` and `100.0` are `1e2`. */
function decimalOf(source: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = NUMBER.exec(source) ?? []
  const digits = whole + fraction
  let from = 0
  while (digits[from] === '0') from++
  if (from === digits.length) return '0'
  if (exponent.length > MAX_EXPONENT_CHARS) return source
  // A pattern for zeros at the end would need quadratic time.
  let end = digits.length
  while (digits[end - 1] === '0') end--
  return `${sign}${digits.slice(from, end)}e${Number(exponent) - fraction.length + digits.length - end}`
}
