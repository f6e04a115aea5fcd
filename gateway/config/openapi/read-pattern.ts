import {
  assertion,
  CLASSES,
  grouped,
  inRow,
  type Letters,
  lettersOf,
  one,
  oneOf,
  type Part,
  part,
  range,
  repeated,
  taken,
} from './pattern-parts.ts'

/** Its message is for the author of the pattern. */
export class Unsupported extends Error {}

/** A pattern of another dialect without an exact equivalent in ECMA-262. */
export class OtherDialect extends Unsupported {}

/** Marks of other dialects: atomic groups, comments, flags, possessive quantifiers, anchors. */
const DIALECT = /\(\?(?:[>#(|&PR'\d]|[a-z^-]+[:)])|[*+?}]\+|\\[AGKQZz]/
/** Slashes around a pattern with anchors. If the slashes were letters, no text would match. */
const IN_SLASHES = /^\/(\^.*\$)\/([giu]*)$/s
const POSIX: Readonly<Record<string, string>> = {
  alpha: 'AZaz',
  digit: '09',
  alnum: 'AZaz09',
  upper: 'AZ',
  lower: 'az',
  space: '\t\r  ',
  blank: '\t\t  ',
  punct: '!/:@[`{~',
  xdigit: '09AFaf',
  word: 'AZaz09__',
  cntrl: '\0\x1f\x7f\x7f',
  graph: '!~',
  print: ' ~',
}
/** @returns false for a pattern that is valid only without the flag `u` @throws SyntaxError @throws OtherDialect */
function assertPattern(source: string): boolean {
  const withoutFlags = source.replaceAll(/\\.|\(\?i\)/gs, (found) => (found === '(?i)' ? '' : found))
  try {
    new RegExp(withoutFlags, 'u')
    return true
  } catch {
    try {
      new RegExp(withoutFlags)
      return false
    } catch (error) {
      if (DIALECT.test(source)) throw new OtherDialect('is written in another dialect than ECMA-262')
      throw error
    }
  }
}

/** A condition of a pattern: a text must match the part, or must not if `holds` is false. */
export interface Conjunct extends Part {
  readonly holds: boolean
}

const MAX_DEPTH = 100
const ANY = '\\x{0}-\\x{10ffff}'
const NOT_LINE_END = '[^\\x{a}\\x{d}\\x{2028}\\x{2029}]'
const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, 0: 0 }
/** Short names of general categories by their long ones, which RE2 does not know. */
const CATEGORIES: Readonly<Record<string, string>> = {
  Letter: 'L',
  Mark: 'M',
  Number: 'N',
  Punctuation: 'P',
  Symbol: 'S',
  Separator: 'Z',
  Other: 'C',
  Uppercase_Letter: 'Lu',
  Lowercase_Letter: 'Ll',
  Decimal_Number: 'Nd',
}
const PROPERTY = /[pP](?:\{(?:(?:gc|General_Category|sc|Script)=)?(\w+)\}|([A-Z]))/y
const CODE_POINT =
  /x([0-9A-Fa-f]{2})|u\{([0-9A-Fa-f]+)\}|u([Dd][89ABab][0-9A-Fa-f]{2})\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})/y
const QUANTIFIER = /(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})\??/y
const FLAG = /\(\?i\)/y
const POSIX_CLASS = /\[:(alpha|digit|alnum|upper|lower|space|blank|punct|xdigit|word|cntrl|graph|print):\]/y
const GROUP = /\?(?:i?:|<?[=!]|<[^>=!]+>)|(?!\?)/y

/**
 * Reads a pattern of ECMA-262 with the flag `u`, but reads escapes such as `\-`, and braces that repeat nothing, as
 * letters. Look-aheads after `^` and look-behinds before `$` become conjuncts. Syntax of other dialects is accepted if
 * it has an exact equivalent: `\A`, `\z`, `\Z` at the end, `[[:alpha:]]`, `(?i)`, `(?P<name>…)`, slashes around `^…$`.
 * @throws SyntaxError when it is no pattern @throws OtherDialect @throws Unsupported when no engine knows it
 */
export function readPattern(source: string): readonly Conjunct[] {
  const [, inside, flags = ''] = IN_SLASHES.exec(source) ?? []
  if (inside !== undefined) return readPattern(flags.includes('i') ? `(?i)${inside}` : inside)
  const known = source.replaceAll(/\\.|\(\?P</gs, (found) => (found === '(?P<' ? '(?<' : found))
  return new Reader(known, assertPattern(known)).conjuncts()
}

class Reader {
  readonly #source: string
  #at = 0
  #depth = 0
  #ignoresCase = false
  readonly #isStrict: boolean

  /** @param isStrict whether the pattern is valid with the flag `u` */
  constructor(source: string, isStrict: boolean) {
    this.#source = source
    this.#isStrict = isStrict
  }

  conjuncts(): Conjunct[] {
    const terms = this.#terms()
    if (this.#at < this.#source.length) {
      this.#at = 0
      this.#ignoresCase = false
      return [{ ...this.#alternatives(), holds: true }]
    }
    return conjunctsOf(terms)
  }

  #alternatives(): Part {
    const all = [inRow(this.#terms())]
    while (this.#has('|')) all.push(inRow(this.#terms()))
    return all.length === 1 ? (all[0] as Part) : oneOf(all)
  }

  #terms(): Term[] {
    const terms: Term[] = []
    while (this.#at < this.#source.length && !/[|)]/.test(this.#source[this.#at] as string)) {
      if (this.#match(FLAG)) {
        this.#ignoresCase = true
        continue
      }
      const term = this.#term()
      const [found, sign, least, comma, most] = this.#match(QUANTIFIER) ?? []
      if (found === undefined) terms.push(term)
      else {
        const min = sign === undefined ? Number(least) : sign === '+' ? 1 : 0
        const max =
          sign === '?' ? 1 : sign || (comma && !most) ? Number.POSITIVE_INFINITY : Number(most || least)
        terms.push({ ...repeated(term, min, max, found), around: undefined })
      }
    }
    return terms
  }

  #term(): Term {
    const letter = this.#letter()
    if (letter === '^') return { ...assertion('^'), anchored: true }
    if (letter === '$') return assertion('$')
    if (letter === '.') return taken(NOT_LINE_END, '.')
    if (letter === '(') return this.#group()
    if (letter === '[') return this.#class()
    if (letter !== '\\') return one(this.#inCases(letter.codePointAt(0) as number))
    if (this.#has('b')) return assertion('\\b')
    if (this.#has('B')) return assertion('\\B')
    if (this.#has('A')) return { ...assertion('^'), anchored: true }
    if (this.#has('z')) return assertion('$')
    if (this.#match(/Z$/y)) return inRow([repeated(one(10), 0, 1, '?'), assertion('$')])
    return one(this.#inCases(this.#escaped()))
  }

  #group(): Term {
    const [kind] = this.#match(GROUP) ?? []
    if (kind === undefined) throw new OtherDialect('has a group with flags, of which only "(?i:" is known')
    this.#depth += 1
    if (this.#depth > MAX_DEPTH) throw new Unsupported(`has groups more than ${MAX_DEPTH} deep`)
    const ignoredCase = this.#ignoresCase
    if (kind === '?i:') this.#ignoresCase = true
    const inside = this.#alternatives()
    this.#ignoresCase = ignoredCase
    this.#depth -= 1
    this.#at += 1
    if (!/[=!]$/.test(kind)) return grouped(inside)
    const isAhead = !kind.includes('<')
    const beyond = `looks ${isAhead ? 'ahead' : 'behind'} ("(${kind}")`
    const { endless, cost } = inside
    const ecma = `(${kind}${inside.ecma})`
    const around = part('', ecma, false, (letters) => ({ steps: cost(letters).steps + 1, ways: 1 }))
    return {
      ...around,
      endless,
      beyond: inside.beyond ?? beyond,
      around: { inside, isAhead, holds: kind.endsWith('=') },
    }
  }

  #class(): Part {
    const not = this.#has('^') ? '^' : ''
    let [re2, ecma] = ['', '']
    const add = (letters: Letters) => {
      re2 += letters.re2
      ecma += letters.ecma
    }
    while (!this.#has(']')) {
      const [posix, name = ''] = (!this.#isStrict && this.#match(POSIX_CLASS)) || []
      if (posix !== undefined) {
        for (const [letters] of (POSIX[name] as string).matchAll(/../gs)) add(this.#rangeInCases(letters))
        continue
      }
      if (!this.#isStrict && this.#match(/\[[:.=]\^?\w+[:.=]\]/y))
        throw new OtherDialect('has a class of letters in brackets that is not known')
      const first = this.#inClass()
      const isRange = /^-[^\]]/.test(this.#source.slice(this.#at, this.#at + 2))
      if (isRange) this.#at += 1
      const last = isRange ? this.#inClass() : undefined
      if (typeof first === 'number' && typeof last === 'number')
        add(this.#rangeInCases(String.fromCodePoint(first, last)))
      else
        for (const one of last === undefined ? [first] : [first, 0x2d, last])
          add(lettersOf(this.#inCases(one)))
    }
    if (re2 === '') return taken(not ? `[${ANY}]` : `[^${ANY}]`, `[${not}]`)
    return taken(`[${not}${re2}]`, `[${not}${ecma}]`)
  }

  /** A letter, in both cases where case is ignored. To ignore case beyond ASCII is a fault, because dialects differ. */
  #inCases(letter: number | Letters): number | Letters {
    if (!this.#ignoresCase || typeof letter !== 'number') return letter
    const text = String.fromCodePoint(letter)
    const [lower, upper] = [text.toLowerCase(), text.toUpperCase()]
    if (lower === upper) return letter
    if (letter > 0x7f) throw new OtherDialect(`ignores the case of "${text}"`)
    return joinedLetters([lettersOf(lower.charCodeAt(0)), lettersOf(upper.charCodeAt(0))])
  }

  #rangeInCases(ends: string): Letters {
    const [first, last] = Array.from(ends, (letter) => letter.codePointAt(0) as number) as [number, number]
    const all = [range(first, last)]
    if (!this.#ignoresCase) return all[0] as Letters
    if (last > 0x7f) throw new OtherDialect('ignores the case of letters beyond ASCII')
    for (const [from, to, distance] of [
      [0x41, 0x5a, 32],
      [0x61, 0x7a, -32],
    ] as const) {
      const [low, high] = [Math.max(first, from), Math.min(last, to)]
      if (low <= high) all.push(range(low + distance, high + distance))
    }
    return joinedLetters(all)
  }

  #inClass(): number | Letters {
    const letter = this.#letter()
    if (letter !== '\\') return letter.codePointAt(0) as number
    return this.#has('b') ? 8 : this.#escaped()
  }

  #escaped(): number | Letters {
    const property = this.#match(PROPERTY)
    if (property !== undefined) {
      const [text, name = property[2] as string] = property
      if (this.#ignoresCase) throw new OtherDialect(`ignores the case of letters of "\\${text}"`)
      return {
        re2: `\\${text[0]}{${CATEGORIES[name] ?? name}}`,
        ecma: `\\${text.length === 2 ? `${text[0]}{${name}}` : text}`,
      }
    }
    const point = this.#match(CODE_POINT)
    if (point !== undefined) {
      const [, x, u, high, low, unit] = point
      if (high !== undefined) return String.fromCharCode(hex(high), hex(low)).codePointAt(0) as number
      return hex(x ?? u ?? unit)
    }
    const control = this.#match(/c([A-Za-z])/y)
    if (control !== undefined) return (control[1] as string).charCodeAt(0) % 32
    const letter = this.#letter()
    const known = CLASSES[letter] ?? CONTROLS[letter]
    const isOctal = letter === '0' && /^[0-9]/.test(this.#source.slice(this.#at))
    if (known !== undefined && !isOctal) return known
    if (/[1-9k]/.test(letter)) throw new Unsupported(`refers back to a group ("\\${letter}")`)
    if (/[0-9A-Za-z]/.test(letter))
      throw new OtherDialect(`has the escape "\\${letter}", which ECMA-262 does not know`)
    return letter.codePointAt(0) as number
  }

  #letter(): string {
    const letter = String.fromCodePoint(this.#source.codePointAt(this.#at) as number)
    this.#at += letter.length
    return letter
  }

  #has(letter: string): boolean {
    if (this.#source[this.#at] !== letter) return false
    this.#at += 1
    return true
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#source) ?? undefined
    if (found !== undefined) this.#at += found[0].length
    return found
  }
}

interface Term extends Part {
  readonly around?: undefined | { readonly inside: Part; readonly isAhead: boolean; readonly holds: boolean }
}

/** Splits off look-arounds at the ends of a pattern. They are about the whole text, so each is matched alone. */
function conjunctsOf(terms: readonly Term[]): Conjunct[] {
  const rest = [...terms]
  const conjuncts: Conjunct[] = []
  const [begin, end] = [terms[0], terms.at(-1)]
  while (begin?.ecma === '^' && rest[1]?.around?.isAhead === true) {
    const [{ around }] = rest.splice(1, 1) as [Term]
    if (around !== undefined)
      conjuncts.push({ ...inRow([begin, grouped(around.inside)]), holds: around.holds })
  }
  while (end?.ecma === '$' && rest.at(-2)?.around?.isAhead === false) {
    const [{ around }] = rest.splice(-2, 1) as [Term]
    if (around !== undefined) conjuncts.push({ ...inRow([grouped(around.inside), end]), holds: around.holds })
  }
  return [...conjuncts, { ...inRow(rest), holds: true }]
}

function joinedLetters(all: readonly Letters[]): Letters {
  return { re2: all.map(({ re2 }) => re2).join(''), ecma: all.map(({ ecma }) => ecma).join('') }
}

function hex(digits: string | undefined): number {
  return Number.parseInt(digits as string, 16)
}
