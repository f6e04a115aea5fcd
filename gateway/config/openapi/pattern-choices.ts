/** In how many ways a part of a pattern can be gone through, and in how many of them it takes no letter. */
interface Choices {
  readonly all: number
  readonly empty: number
}

/** A repetition that may be longer is as good as one without end. */
const MOST = 32
const LETTER: Choices = { all: 1, empty: 0 }
const NOTHING: Choices = { all: 1, empty: 1 }
const QUANTIFIER = /^(?:[*+?]|\{(\d+)(?:(,)(\d*))?\})\??/

/**
 * An upper bound for how many ways a match tries for one text because of repetitions that have an end: `(?:[A-Z]{1,4}-?){1,10}`
 * takes 40 letters in millions of ways. A repetition without end counts as one way here.
 *
 * @param plain the pattern with each escape and each class as one letter
 */
export function choicesOf(plain: string): number {
  return new Reader(plain).alternatives().all
}

class Reader {
  readonly #plain: string
  #at = 0

  constructor(plain: string) {
    this.#plain = plain
  }

  alternatives(): Choices {
    let { all, empty } = this.#sequence()
    while (this.#plain[this.#at] === '|') {
      this.#at += 1
      const other = this.#sequence()
      all += other.all
      empty += other.empty
    }
    return { all, empty }
  }

  #sequence(): Choices {
    let { all, empty } = NOTHING
    while (this.#at < this.#plain.length && !'|)'.includes(this.#plain[this.#at] as string)) {
      const part = this.#repeated(this.#one())
      all *= part.all
      // Nothing remains nothing, also where the other is too large for a number.
      empty = empty === 0 || part.empty === 0 ? 0 : empty * part.empty
    }
    return { all, empty }
  }

  #one(): Choices {
    const begin = this.#plain[this.#at]
    this.#at += 1
    if (begin === '^' || begin === '$') return NOTHING
    if (begin !== '(') return LETTER
    const [kind = ''] = /^\?(?:[:=!]|<[=!]|<[^>]*>)/.exec(this.#plain.slice(this.#at)) ?? []
    this.#at += kind.length
    const inside = this.alternatives()
    this.#at += 1
    return /^\?<?[=!]/.test(kind) ? { all: inside.all, empty: inside.all } : inside
  }

  /** After the times that must be, one that takes no letter ends the repetition (ECMA-262, RepeatMatcher). */
  #repeated(part: Choices): Choices {
    const [found = '', least, comma, most] = QUANTIFIER.exec(this.#plain.slice(this.#at)) ?? []
    this.#at += found.length
    if (found === '') return part
    const isOnce = found.startsWith('?')
    const min = found.startsWith('+') ? 1 : Number(least ?? 0)
    const max = isOnce ? 1 : comma !== undefined && Number(most) <= MOST ? Number(most) : min
    const taking = part.all - part.empty
    const further = Math.max(max - min, 0)
    const ways = taking === 1 ? further + 1 : (taking ** (further + 1) - 1) / (taking - 1)
    const all = part.all ** min * ways
    return {
      // NaN where both sides of a division or a difference are too large for a number.
      all: Number.isFinite(all) ? all : Number.POSITIVE_INFINITY,
      empty: min === 0 ? 1 : part.empty ** min,
    }
  }
}
