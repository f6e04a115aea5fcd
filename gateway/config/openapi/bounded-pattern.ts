import { createContext, Script } from 'node:vm'

/** A value would take too long to be compared with its schema. */
export class TooComplex extends Error {}

/** Steps that the check of one value may take, as estimated: some 100 ms. */
const MAX_STEPS = 20_000_000
/** A match that may take more has a time limit, which costs as much as so many. */
const TIMED_STEPS = 100_000
/** Longest time of one match, milliseconds; much more than it takes, because the machine may be busy. */
const MATCH_MS = 250
/** How long longer texts are refused after a match took too long. */
const PAUSE_MS = 10_000

const TIMED = new Script('test()')
let context: { test: () => void } | undefined
let steps = 0

/** Begins to count the steps of one check. What follows must be synchronous. */
export function beginSteps(): void {
  steps = 0
}

/** @throws TooComplex */
export function takeSteps(count: number): void {
  steps += count
  if (steps > MAX_STEPS) throw new TooComplex('it takes too many steps')
}

/**
 * A regular expression whose text comes from callers. What cannot take long is matched as usual. The rest has a time limit: a
 * pattern such as `^(a+)+$` can take minutes for 40 characters. One that has met the limit refuses longer texts for a while,
 * so that a caller cannot have it do so again and again.
 */
export class BoundedPattern {
  readonly #regexp: RegExp
  /** How the time may grow with the text: 1 is linear, infinite is exponential. */
  readonly #degree: number
  #pausedUntilMs = 0

  /** @throws SyntaxError */
  constructor(source: string, flags: string) {
    this.#regexp = regexpOf(source, flags)
    this.#degree = degreeOf(source)
  }

  /** @throws TooComplex */
  test(text: string): boolean {
    if (this.#degree <= 1) return this.#regexp.test(text)
    const estimate =
      this.#degree === Number.POSITIVE_INFINITY ? 2 ** text.length : text.length ** this.#degree
    takeSteps(Math.min(estimate, TIMED_STEPS))
    return estimate <= TIMED_STEPS ? this.#regexp.test(text) : this.#timed(text)
  }

  /** A key of compiled schemas. */
  toString(): string {
    return String(this.#regexp)
  }

  #timed(text: string): boolean {
    if (performance.now() < this.#pausedUntilMs) throw new TooComplex(`a text is too long for ${this}`)
    let matches = false
    context ??= createContext({ test: () => {} }) as { test: () => void }
    context.test = () => {
      matches = this.#regexp.test(text)
    }
    try {
      TIMED.runInContext(context, { timeout: MATCH_MS })
      return matches
    } catch {
      this.#pausedUntilMs = performance.now() + PAUSE_MS
      throw new TooComplex(`a text takes too long to be compared with ${this}`)
    }
  }
}

/** Patterns of OpenAPI are often written without regard to the rules that `u` brings. */
function regexpOf(source: string, flags: string): RegExp {
  try {
    return new RegExp(source, flags)
  } catch (error) {
    if (!flags.includes('u')) throw error
    return new RegExp(source, flags.replace('u', ''))
  }
}

/**
 * An upper bound for how the time of a match grows with the text: one for each repetition without end, one more when it may
 * begin anywhere; exponential when one repetition holds another, or alternatives, or when it refers back.
 */
function degreeOf(source: string): number {
  const text = source.replaceAll(/\\(?:u\{[^}]*\}|p\{[^}]*\}|[\s\S])/gi, (escaped) =>
    /\\[1-9k]/.test(escaped) ? '\u0001' : 'x',
  )
  const plain = text.replaceAll(/\[\^?\]?[^\]]*\]/g, 'x')
  if (plain.includes('\u0001')) return Number.POSITIVE_INFINITY
  const isOpen = (at: number) => /^(?:[*+]|\{\d+,\})/.test(plain.slice(at)) || isLong(plain.slice(at))
  const groups: { risky: boolean }[] = []
  let repetitions = 0
  for (let at = 0; at < plain.length; at++) {
    const inside = groups.at(-1)
    if (plain[at] === '(') groups.push({ risky: false })
    else if (plain[at] === '|' && inside !== undefined) inside.risky = true
    else if (plain[at] === ')') {
      const group = groups.pop()
      if (isOpen(at + 1) && group?.risky === true) return Number.POSITIVE_INFINITY
      const outer = groups.at(-1)
      if (outer !== undefined && group?.risky === true) outer.risky = true
    }
    if (!isOpen(at)) continue
    repetitions += 1
    if (inside !== undefined) inside.risky = true
    const outer = groups.at(-1)
    if (outer !== undefined) outer.risky = true
  }
  return plain.startsWith('^') && !hasTopAlternative(plain) ? repetitions : repetitions + 1
}

/** A repetition with a high bound is as good as one without. */
function isLong(rest: string): boolean {
  const [, most] = /^\{\d+,(\d+)\}/.exec(rest) ?? []
  return Number(most ?? 0) > 32
}

function hasTopAlternative(plain: string): boolean {
  let depth = 0
  for (const letter of plain) {
    if (letter === '(') depth += 1
    else if (letter === ')') depth -= 1
    else if (letter === '|' && depth === 0) return true
  }
  return false
}
