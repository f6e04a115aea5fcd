/**
 * How a match may go on in a part of a pattern, counted as if every letter of the pattern took every letter of the text. So the
 * numbers are upper bounds.
 */
interface Branching {
  /** Ways to its first letter. */
  readonly first: number
  /** Ways through it that take no letter. */
  readonly empty: number
  /** Most ways from one of its letters to the next letter within it. */
  readonly next: number
  /** Most ways from one of its letters to its end. */
  readonly last: number
}

const LETTER: Branching = { first: 1, empty: 0, next: 0, last: 1 }
const NOTHING: Branching = { first: 0, empty: 1, next: 0, last: 0 }
const QUANTIFIER = /^(?:[*+?]|\{(\d+)(?:(,)(\d*))?\})\??/
const LOOK_AROUND = /^\?<?[=!]/

/**
 * An upper bound for the steps of a match of a pattern, whatever its repetitions hold. Each letter of the text multiplies it, so
 * it is of use for short texts only.
 */
export class PatternBranching {
  readonly #pattern: Branching
  readonly #lookArounds: readonly Branching[]
  readonly #beginsAnywhere: boolean

  /** @param plain the pattern with each escape and each class as one letter; what refers back is U+0001 */
  constructor(plain: string, beginsAnywhere: boolean) {
    const reader = new Reader(plain)
    this.#pattern = plain.includes('\u0001')
      ? { ...LETTER, next: Number.POSITIVE_INFINITY }
      : reader.alternatives()
    this.#lookArounds = reader.lookArounds
    this.#beginsAnywhere = beginsAnywhere
  }

  /** Most steps for a text of so many letters; may be infinite. */
  stepsFor(letters: number): number {
    const inside = this.#lookArounds.reduce((sum, one) => sum + stepsOf(one, letters), 1)
    const steps = stepsOf(this.#pattern, letters) * inside ** (this.#lookArounds.length + 1)
    return finiteOr(this.#beginsAnywhere ? steps * (letters + 1) : steps)
  }
}

function stepsOf({ first, empty, next, last }: Branching, letters: number): number {
  // The sum of the ways to each letter of the text.
  const taken = first * (next < 2 ? letters + 1 : 2 * next ** letters)
  return finiteOr((taken + 1) * (last + 1) + empty)
}

/** NaN where both sides of a product are beyond numbers, or one is and the other is 0. */
function finiteOr(steps: number): number {
  return Number.isNaN(steps) ? Number.POSITIVE_INFINITY : steps
}

class Reader {
  readonly lookArounds: Branching[] = []
  readonly #plain: string
  #at = 0

  constructor(plain: string) {
    this.#plain = plain
  }

  alternatives(): Branching {
    let { first, empty, next, last } = this.#sequence()
    while (this.#plain[this.#at] === '|') {
      this.#at += 1
      const other = this.#sequence()
      first += other.first
      empty += other.empty
      next = Math.max(next, other.next)
      last = Math.max(last, other.last)
    }
    return { first, empty, next, last }
  }

  #sequence(): Branching {
    let whole = NOTHING
    const parts: Branching[] = []
    while (this.#at < this.#plain.length && !'|)'.includes(this.#plain[this.#at] as string))
      parts.push(this.#repeated(this.#one()))
    for (const part of parts.reverse()) whole = inRow(part, whole)
    return whole
  }

  #one(): Branching {
    const begin = this.#plain[this.#at]
    this.#at += 1
    if (begin === '^' || begin === '$') return NOTHING
    if (begin !== '(') return LETTER
    const [kind = ''] = /^\?(?:[:=!]|<[=!]|<[^>]*>)/.exec(this.#plain.slice(this.#at)) ?? []
    this.#at += kind.length
    const inside = this.alternatives()
    this.#at += 1
    if (!LOOK_AROUND.test(kind)) return inside
    this.lookArounds.push(inside)
    return NOTHING
  }

  #repeated(part: Branching): Branching {
    const [found = '', least, comma, most] = QUANTIFIER.exec(this.#plain.slice(this.#at)) ?? []
    this.#at += found.length
    if (found === '') return part
    const min = found.startsWith('+') ? 1 : Number(least ?? 0)
    const isOnce = found.startsWith('?')
    const max = isOnce
      ? 1
      : found.startsWith('{') && comma === undefined
        ? min
        : most
          ? Number(most)
          : Number.POSITIVE_INFINITY
    return times(part, min, max)
  }
}

/** One part and then the other. */
function inRow(one: Branching, other: Branching): Branching {
  return {
    first: one.first + product(one.empty, other.first),
    empty: product(one.empty, other.empty),
    next: Math.max(one.next + product(one.last, other.first), other.next),
    last: Math.max(product(one.last, other.empty), other.last),
  }
}

/** After the times that must be, one that takes no letter ends the repetition (ECMA-262, RepeatMatcher). */
function times(part: Branching, min: number, max: number): Branching {
  const { empty } = part
  /** Ways to a letter in one of so many times, after others that take none. */
  const within = (count: number) => {
    const sum = empty === 1 ? count : empty === 0 ? Math.min(count, 1) : (empty ** count - 1) / (empty - 1)
    return product(part.first, finiteOr(sum))
  }
  const again = max > 1 ? within(Math.max(min, 1)) : 0
  return {
    first: max === 0 ? 0 : within(max > min ? min + 1 : min),
    empty: min === 0 ? 1 : empty ** min,
    next: part.next + product(part.last, again),
    last: part.last * Math.max(1, empty ** Math.max(min - 1, 0)),
  }
}

/** None remains none, also beside what is too large for a number. */
function product(a: number, b: number): number {
  return a === 0 || b === 0 ? 0 : a * b
}
