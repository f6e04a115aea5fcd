import { createContext, Script } from 'node:vm'
import { PatternBranching } from './pattern-branching.ts'
import { choicesOf } from './pattern-choices.ts'

/** A value would take too long to be compared with its schema. */
export class TooComplex extends Error {}

/** Steps that the check of one value may take, as estimated: some 100 ms. */
const MAX_STEPS = 20_000_000
/** A match that may take more has a time limit, which costs as much as so many. */
const TIMED_STEPS = 100_000
/** What beginning a time limit takes. */
const TIMER_STEPS = 20_000
/** What takes no more is not counted. */
const FREE_STEPS = 100_000
/** A match with many choices that takes no more needs no time limit: some 100 ms at worst. */
const MEASURED_STEPS = 20_000_000
const STEPS_PER_MS = 200_000
/** Longest time of one match, milliseconds. */
const MATCH_MS = 250
/** A match that is broken off with less of the processor than this is tried again: the machine is busy. */
const MATCH_CPU_MS = 100
/** How long longer texts are refused after a match took too long. */
const PAUSE_MS = 10_000
/** Time to compile a pattern, on a busy machine too. */
const TRY_MS = 2000
/** Letters of a pattern in a fault. */
const MAX_SHOWN = 60

const TIMED = new Script('test()')
let context: { test: () => void } | undefined
let steps = 0
/** What the measured matches of the check took. */
let matchMs = 0
/** CPU time of this thread at the first of them. */
let beganCpuMs: number | undefined

/** Begins to count the steps of one check. What follows must be synchronous. */
export function beginSteps(): void {
  steps = 0
  matchMs = 0
  beganCpuMs = undefined
}

/** @throws TooComplex */
export function takeSteps(count: number): void {
  steps += count
  if (!isTooMuch()) return
  // Time in which the thread had no processor does not count. The CPU time is looked at late, because it takes a system call.
  if (beganCpuMs !== undefined) matchMs = Math.min(matchMs, cpuMs() - beganCpuMs)
  if (isTooMuch()) throw new TooComplex('it takes too many steps')
}

function isTooMuch(): boolean {
  return steps + matchMs * STEPS_PER_MS > MAX_STEPS
}

/** Runs a match, and counts what it takes. @throws TooComplex */
function measured(match: () => void): void {
  beganCpuMs ??= cpuMs()
  const beganMs = performance.now()
  match()
  matchMs += performance.now() - beganMs
  takeSteps(0)
}

/** Of this thread. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
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
  /** In how many ways its bounded repetitions can divide one text. */
  readonly #choices: number
  /** For short texts, whatever degree and choices are. */
  readonly #branching: PatternBranching
  #pausedUntilMs = 0

  /** @throws SyntaxError */
  constructor(source: string, flags: string) {
    this.#regexp = regexpOf(source, flags)
    const plain = plainOf(source)
    this.#degree = degreeOf(plain)
    this.#choices = choicesOf(plain)
    this.#branching = new PatternBranching(plain, !isAnchored(plain))
  }

  /**
   * Has the engine compile the pattern, which it does at the first match, and again for texts with letters beyond Latin-1.
   *
   * @throws Error when it is too large
   */
  tryOut(): void {
    for (const text of ['', '\u0101']) {
      try {
        inTime(() => this.#regexp.test(text), TRY_MS)
      } catch (error) {
        // One that takes long is no fault here: `test` sees to it.
        if ((error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') continue
        const { source } = this.#regexp
        const shown = source.length > MAX_SHOWN ? `${source.slice(0, MAX_SHOWN)}…` : source
        throw new Error(`the pattern "${shown}" is too large`)
      }
    }
  }

  /** @throws TooComplex */
  test(text: string): boolean {
    // At the end of the text, too, there are ways to take nothing; and 1 to the power of infinity is no number.
    const places = text.length + 2
    if (this.#degree <= 1) {
      const steps = places * this.#choices
      return this.#choices === 1 || steps <= FREE_STEPS
        ? this.#regexp.test(text)
        : this.#measured(text, steps)
    }
    const steps = Math.min(this.#choices * places ** this.#degree, this.#branching.stepsFor(text.length))
    if (steps > TIMED_STEPS) return this.#timed(text)
    takeSteps(steps)
    return this.#regexp.test(text)
  }

  /** What many choices take depends on the text, and is mostly nothing: what it took is counted. */
  #measured(text: string, steps: number): boolean {
    if (Math.min(steps, this.#branching.stepsFor(text.length)) > MEASURED_STEPS) return this.#timed(text)
    let matches = false
    measured(() => {
      matches = this.#regexp.test(text)
    })
    return matches
  }

  /** A key of compiled schemas. */
  toString(): string {
    return String(this.#regexp)
  }

  #timed(text: string): boolean {
    if (performance.now() < this.#pausedUntilMs) throw new TooComplex(`a text is too long for ${this}`)
    let matches = false
    takeSteps(TIMER_STEPS)
    measured(() =>
      this.#runTimed(() => {
        matches = this.#regexp.test(text)
      }),
    )
    return matches
  }

  #runTimed(match: () => void): void {
    const beganMs = cpuMs()
    for (;;) {
      try {
        inTime(match, MATCH_MS)
        return
      } catch {
        if (cpuMs() - beganMs < MATCH_CPU_MS) continue
        this.#pausedUntilMs = performance.now() + PAUSE_MS
        throw new TooComplex(`a text takes too long to be compared with ${this}`)
      }
    }
  }
}

/** @throws Error with the code ERR_SCRIPT_EXECUTION_TIMEOUT, or what the match throws */
function inTime(match: () => void, timeout: number): void {
  context ??= createContext({ test: () => {} }) as { test: () => void }
  context.test = match
  TIMED.runInContext(context, { timeout })
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

/** A pattern with each escape and each class as one letter; what refers back is U+0001. */
function plainOf(source: string): string {
  const text = source.replaceAll(/\\(?:u\{[^}]*\}|p\{[^}]*\}|[\s\S])/gi, (escaped) =>
    /\\[1-9k]/.test(escaped) ? '\u0001' : 'x',
  )
  // In ECMAScript `[]` and `[^]` are whole classes.
  return text.replaceAll(/\[[^\]]*\]/g, 'x')
}

/**
 * An upper bound for how the time of a match grows with the text: one for each repetition without end, as often as it is itself
 * repeated, one more when it may begin anywhere; exponential when one repetition holds another, with an end
 * or without, or alternatives, or when it refers back.
 */
function degreeOf(plain: string): number {
  if (plain.includes('\u0001')) return Number.POSITIVE_INFINITY
  const isOpen = (at: number) => /^(?:[*+]|\{\d+,\})/.test(plain.slice(at)) || isLong(plain.slice(at))
  const groups: { risky: boolean; open: number }[] = []
  let repetitions = 0
  for (let at = 0; at < plain.length; at++) {
    const inside = groups.at(-1)
    if (plain[at] === '(') groups.push({ risky: false, open: 0 })
    else if (plain[at] === '|' && inside !== undefined) inside.risky = true
    else if (plain[at] === ')') {
      const group = groups.pop()
      if (isOpen(at + 1) && group?.risky === true) return Number.POSITIVE_INFINITY
      const outer = groups.at(-1)
      const open = (group?.open ?? 0) * timesAfter(plain, at)
      repetitions += open - (group?.open ?? 0)
      if (outer !== undefined) outer.open += open
      if (outer !== undefined && group?.risky === true) outer.risky = true
    }
    if (inside !== undefined && isVarying(plain, at)) inside.risky = true
    if (!isOpen(at)) continue
    repetitions += 1
    if (inside !== undefined) {
      inside.risky = true
      inside.open += 1
    }
  }
  return isAnchored(plain) ? repetitions : repetitions + 1
}

function isAnchored(plain: string): boolean {
  return plain.startsWith('^') && !hasTopAlternative(plain)
}

/** Whether a repetition begins here that has an end and takes one text in several ways: `?`, `{1,3}`. */
function isVarying(plain: string, at: number): boolean {
  if (plain[at] === '?') return plain[at - 1] !== '('
  const [, least, most] = /^\{(\d+),(\d+)\}/.exec(plain.slice(at)) ?? []
  return Number(least) < Number(most)
}

/** How often a group that ends here is repeated at most, where that has an end. */
function timesAfter(plain: string, at: number): number {
  const [, least, most] = /^\{(\d+)(?:,(\d+))?\}/.exec(plain.slice(at + 1)) ?? []
  return Math.max(1, Number(most ?? least ?? 1))
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
