/** The most that a backtracking engine does from one place of a text. */
interface Cost {
  readonly steps: number
  /** Number of ways to take the part. */
  readonly ways: number
}

export interface Part {
  readonly re2: string
  /** As ECMA-262 writes it with the flag `v`. */
  readonly ecma: string
  readonly size: number
  /** Copies of its most repeated letter; at most 1,000 for RE2. */
  readonly copies: number
  readonly takes: boolean
  readonly anchored: boolean
  readonly endless: boolean
  /** The reason why RE2 cannot take it. */
  readonly beyond?: string | undefined
  readonly cost: (letters: number) => Cost
}

export interface Letters {
  readonly re2: string
  readonly ecma: string
}

const MAX_COPIES = 1000
/** The largest pattern for RE2, with all repetitions written out. */
export const MAX_SIZE = 5000
const ONCE: Cost = { steps: 1, ways: 1 }
/** WhiteSpace and LineTerminator of ECMA-262. `\s` of RE2 has only five of these letters. */
const SPACE =
  '\\x{9}-\\x{d}\\x{20}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff}'
const NO_SPACE =
  '\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}' +
  '\\x{2060}-\\x{2fff}\\x{3001}-\\x{fefe}\\x{ff00}-\\x{10ffff}'
export const CLASSES: Readonly<Record<string, Letters>> = {
  d: same('\\d'),
  D: same('\\D'),
  w: same('\\w'),
  W: same('\\W'),
  s: { re2: SPACE, ecma: '\\s' },
  S: { re2: NO_SPACE, ecma: '\\S' },
}

export function grouped(inside: Part): Part {
  return { ...inside, re2: `(?:${inside.re2})`, ecma: `(?:${inside.ecma})` }
}

export function one(letter: number | Letters): Part {
  const { re2, ecma } = lettersOf(letter)
  return typeof letter === 'number' ? taken(re2, ecma) : taken(`[${re2}]`, `[${ecma}]`)
}

/** @param letter a code point, or letters already */
export function lettersOf(letter: number | Letters): Letters {
  if (typeof letter !== 'number') return letter
  const text = letter.toString(16)
  return { re2: `\\x{${text}}`, ecma: `\\u{${text}}` }
}

export function range(first: number, last: number): Letters {
  const [one, other] = [lettersOf(first), lettersOf(last)]
  return { re2: `${one.re2}-${other.re2}`, ecma: `${one.ecma}-${other.ecma}` }
}

function same(text: string): Letters {
  return { re2: text, ecma: text }
}

export function part(re2: string, ecma: string, takes: boolean, cost: Part['cost'] = () => ONCE): Part {
  return { re2, ecma, size: 1, copies: 1, takes, anchored: false, endless: false, cost }
}

export function taken(re2: string, ecma: string): Part {
  return part(re2, ecma, true)
}

export function assertion(text: string): Part {
  return part(text, text, false)
}

export function inRow(parts: readonly Part[]): Part {
  if (parts.length === 0) return assertion('')
  return {
    ...joined(parts, ''),
    takes: parts.some(({ takes }) => takes),
    anchored: parts[0]?.anchored === true,
    cost: (letters) => {
      let [steps, ways] = [0, 1]
      for (const { cost } of parts) {
        const one = cost(letters)
        steps += ways * one.steps
        ways *= one.ways
      }
      return { steps, ways }
    },
  }
}

export function oneOf(parts: readonly Part[]): Part {
  return {
    ...joined(parts, '|'),
    takes: parts.every(({ takes }) => takes),
    anchored: parts.every(({ anchored }) => anchored),
    cost: (letters) => {
      const costs = parts.map(({ cost }) => cost(letters))
      return {
        steps: costs.reduce((sum, { steps }) => sum + steps + 1, 0),
        ways: costs.reduce((sum, { ways }) => sum + ways, 0),
      }
    },
  }
}

function joined(parts: readonly Part[], separator: string): Omit<Part, 'takes' | 'anchored' | 'cost'> {
  return {
    re2: parts.map(({ re2 }) => re2).join(separator),
    ecma: parts.map(({ ecma }) => ecma).join(separator),
    size: parts.reduce((sum, { size }) => sum + size, 0),
    copies: Math.max(...parts.map(({ copies }) => copies)),
    endless: parts.some(({ endless }) => endless),
    beyond: parts.find(({ beyond }) => beyond !== undefined)?.beyond,
  }
}

export function repeated(part: Part, min: number, max: number, quantifier: string): Part {
  const most = Number.isFinite(max) ? max : Math.max(min, 1)
  return {
    ...part,
    re2: repeatedText(part, min, max),
    ecma: part.ecma + quantifier,
    size: Math.max(1, part.size * most),
    copies: Math.min(part.copies * Math.max(most, 1), MAX_COPIES),
    takes: part.takes && min > 0,
    anchored: part.anchored && min > 0,
    endless: part.endless || max === Number.POSITIVE_INFINITY,
    cost: (letters) => {
      const { steps, ways } = part.cost(letters)
      // Each repetition takes a letter, and the last repetition may fail at the end of the text.
      const times = part.takes ? Math.min(max, letters + 1) : max
      return {
        steps: sumOfPowers(ways, 0, times) * (steps + 1) + 1,
        ways: sumOfPowers(ways, Math.min(min, times), times + 1),
      }
    },
  }
}

/** base ** from + … + base ** (to - 1) */
function sumOfPowers(base: number, from: number, to: number): number {
  const sum = base === 1 ? to - from : (base ** to - base ** from) / (base - 1)
  return Number.isNaN(sum) ? Number.POSITIVE_INFINITY : sum
}

/** RE2 allows 1,000 repetitions; for more the part is written again. */
function repeatedText({ re2, copies, size }: Part, min: number, max: number): string {
  const often = Math.max(1, Math.floor(MAX_COPIES / copies))
  if (size * (Number.isFinite(max) ? max : min) > MAX_SIZE) return ''
  const rest = min % often
  const written = `${re2}{${often}}`.repeat((min - rest) / often)
  if (max === Number.POSITIVE_INFINITY) return `(?:${written}${re2}{${rest},})`
  const upTo = (most: number): string =>
    most <= often ? `${re2}{0,${most}}` : `(?:${re2}{${often}}${upTo(most - often)}|${re2}{0,${often - 1}})`
  const begin = rest > 0 ? `${written}${re2}{${rest}}` : written
  return `(?:${begin}${max > min ? upTo(max - min) : ''})`
}
