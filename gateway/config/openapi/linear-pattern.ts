import { createRequire } from 'node:module'
import type { RE2Set } from 're2js'
import { MAX_SIZE } from './pattern-parts.ts'
import { type Conjunct, OtherDialect, readPattern, Unsupported } from './read-pattern.ts'
import { takeSteps } from './schema-fits.ts'

interface Engine {
  readonly test: (text: string) => boolean
  readonly stepsFor: (letters: number) => number
}

const require = createRequire(import.meta.url)
/** Limit of V8's steps for a pattern that is matched only at the start of a text. */
const MAX_ANCHORED_STEPS = 20_000
/** Limit of V8's steps at each place of a text. */
const MAX_PLACE_STEPS = 200
/** Limit of the memory for the states of one pattern. */
const MAX_STATES_BYTES = 256 * 1024
const CALL_STEPS = 50
/** Steps for each letter if all states are known. */
const KNOWN_STATE_STEPS = 5
/** If states are not known: PLACE_STEPS for each letter at each place of the pattern, LISTS_STEPS for each call. */
const PLACE_STEPS = 2
const LISTS_STEPS = 500
/** Flags of RE2 for the start of a text, which is also the start of a line. */
const START = 5
const END_TEXT = -1
const UNANCHORED = 0
const KNOWN_PROPERTIES = 'write it as "\\p{L}" or by the name of a script'
const MAX_SHOWN = 60

interface StateRoom {
  bytes: number
}

/**
 * A pattern for texts of callers. The time of a match is linear in the text, and counted beforehand. V8, which
 * backtracks, matches only patterns without endless repetition that take few steps; RE2 matches the others.
 */
export class LinearPattern {
  readonly #source: string
  readonly #engines: readonly (readonly [engine: Engine, holds: boolean])[]

  /** @throws SyntaxError @throws Unsupported */
  constructor(source: string, room: StateRoom = { bytes: MAX_STATES_BYTES }) {
    this.#source = source
    try {
      this.#engines = readPattern(source).map((conjunct) => [engineOf(conjunct, room), conjunct.holds])
    } catch (error) {
      if (!(error instanceof Unsupported)) throw error
      const shown = source.length > MAX_SHOWN ? `${source.slice(0, MAX_SHOWN)}…` : source
      const Reason = error.constructor as typeof Unsupported
      throw new Reason(`the pattern "${shown}" ${error.message}`)
    }
  }

  /** @throws TooComplex */
  test(text: string): boolean {
    return this.#engines.every(([engine, holds]) => {
      takeSteps(engine.stepsFor(text.length))
      return engine.test(text) === holds
    })
  }

  /** The library tells patterns apart by this text. */
  toString(): string {
    return this.#source
  }
}

function engineOf(conjunct: Conjunct, room: StateRoom): Engine {
  const { anchored, beyond, endless, cost } = conjunct
  const { steps } = cost(Number.POSITIVE_INFINITY)
  const isSmall =
    !endless && (anchored ? steps <= MAX_ANCHORED_STEPS : beyond !== undefined && steps <= MAX_PLACE_STEPS)
  const own = isSmall ? v8Of(conjunct) : undefined
  if (own !== undefined) return own
  if (beyond !== undefined) throw new Unsupported(`${beyond}, which cannot be matched in bounded time`)
  return re2Of(conjunct, room)
}

/** @returns undefined when the pattern is too large, or names a Unicode property as only RE2 does */
function v8Of({ ecma, anchored, cost }: Conjunct): Engine | undefined {
  let regexp: RegExp
  try {
    // V8 14 does not match `[^a]$` with a letter beyond U+FFFF under the flag `u`.
    regexp = new RegExp(ecma, 'v')
    // V8 compiles at the first match, and again for letters beyond Latin-1. It refuses a large pattern only then.
    for (const text of ['', '\u0101']) regexp.test(text)
  } catch {
    return undefined
  }
  /** Steps by the number of binary digits of the text's length. */
  const known: number[] = []
  return {
    test: (text) => regexp.test(text),
    stepsFor: (letters) => {
      const digits = 32 - Math.clz32(letters)
      known[digits] ??= cost(2 ** digits).steps
      return anchored ? known[digits] : known[digits] * (letters + 1)
    },
  }
}

function re2Of({ re2, size }: Conjunct, room: StateRoom): Engine {
  if (size > MAX_SIZE)
    throw new Unsupported(`is too large: with its repetitions written out it has more than ${MAX_SIZE} parts`)
  // Loaded here, because an import would cost time at start.
  const { RE2Set: Patterns } = require('re2js') as typeof import('re2js')
  const maxBytes = Math.min(MAX_STATES_BYTES, room.bytes)
  const set = new Patterns(Patterns.UNANCHORED, 0, maxBytes)
  try {
    set.add(re2)
    set.compile()
  } catch (error) {
    const { message } = error as Error
    const property = /invalid character class range: `(\\[pP].*)`$/.exec(message)?.[1]
    if (property === undefined) throw new Unsupported(`cannot be used: ${message}`)
    throw new OtherDialect(`has a Unicode property that is not known ("${property}"): ${KNOWN_PROPERTIES}`)
  }
  const isKnown = makeStates(set.dfa)
  room.bytes -= maxBytes - set.dfa.memBudget
  const letterSteps = isKnown ? KNOWN_STATE_STEPS : PLACE_STEPS * set.prog.numInst()
  const callSteps = isKnown ? CALL_STEPS : LISTS_STEPS + letterSteps
  return {
    test: (text) => set.match(text).length > 0,
    stepsFor: (letters) => callSteps + letters * letterSteps,
  }
}

/** Makes all states of a match beforehand, which is faster than during matches. If they are too many, it makes none. */
function makeStates(dfa: RE2Set['dfa']): boolean {
  const letters: readonly number[] = [0, ...dfa.classBounds]
  const alike = firstAlike(dfa, letters)
  const states = new Set([dfa.makeState([dfa.prog.start], START, [])])
  for (const state of states) {
    if (state === null || dfa.step(state, letters.length, END_TEXT, UNANCHORED) === null) {
      dfa.clearCache()
      dfa.failed = true
      return false
    }
    for (const [index, letter] of letters.entries()) {
      const first = alike[index] as number
      if (first === index) states.add(dfa.step(state, index, letter, UNANCHORED))
      else if (state.next !== null) state.next[index] = state.next[first]
    }
  }
  return true
}

/** Finds for each letter the first letter that the pattern treats in the same way. */
function firstAlike({ prog }: RE2Set['dfa'], letters: readonly number[]): number[] {
  const sets = new Map<unknown, { matchRune(letter: number): boolean }>()
  for (const inst of prog.inst) if (inst.runes.length > 0) sets.set(inst.runes, inst)
  const all = [...sets.values()]
  const seen = new Map<string, number>()
  return letters.map((letter, index) => {
    const isWord = letter < 0x80 && /\w/.test(String.fromCodePoint(letter))
    const taken = [isWord, letter === 10, ...all.map((inst) => inst.matchRune(letter))].join()
    if (!seen.has(taken)) seen.set(taken, index)
    return seen.get(taken) as number
  })
}

type Pattern = Pick<LinearPattern, 'test' | 'toString'>

const MAX_BYTES = 32 * 1024 * 1024

export class DocumentPatterns {
  readonly #known = new Map<string, Pattern>()
  readonly #room: StateRoom = { bytes: MAX_BYTES }
  readonly #skips: boolean
  readonly skipped = new Set<string>()

  /** @param skips whether a pattern that cannot be matched in bounded time accepts every text, or is a fault */
  constructor(skips: boolean) {
    this.#skips = skips
  }

  /** What the library calls in place of `RegExp`. @throws SyntaxError @throws Unsupported */
  asRegExp(): ((source: string) => Pattern) & { code: string } {
    const patternOf = (source: string) => this.#known.getOrInsertComputed(source, () => this.#made(source))
    return Object.assign(patternOf, { code: 'linear-pattern' })
  }

  #made(source: string): Pattern {
    try {
      return new LinearPattern(source, this.#room)
    } catch (error) {
      if (!(error instanceof Unsupported)) throw error
      if (this.#skips || error instanceof OtherDialect) this.skipped.add(error.message)
      if (this.skipped.has(error.message)) return { test: () => true, toString: () => source }
      throw new Unsupported(
        `${error.message}: write it another way, or set "validateRequests" to "skip-patterns"`,
      )
    }
  }
}
