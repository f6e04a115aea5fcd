import { LinearPattern, type StateRoom } from './linear-pattern.ts'
import { OtherDialect, Unsupported } from './pattern-dialects.ts'

/** `toString` is a key of compiled schemas. */
type Pattern = Pick<LinearPattern, 'test' | 'toString'>

/** What the states of all patterns may take. */
const MAX_BYTES = 32 * 1024 * 1024

/** The patterns of a document, each made once. */
export class DocumentPatterns {
  readonly #known = new Map<string, Pattern>()
  readonly #room: StateRoom = { bytes: MAX_BYTES }
  readonly #skips: boolean
  /** Why patterns say nothing. */
  readonly skipped = new Set<string>()

  /** @param skips whether a pattern that cannot be matched in bounded time says nothing; otherwise it throws */
  constructor(skips: boolean) {
    this.#skips = skips
  }

  /** For the library, in the place of `RegExp`. @throws SyntaxError @throws Unsupported */
  asRegExp(): ((source: string) => Pattern) & { code: string } {
    return Object.assign((source: string) => this.#get(source), { code: 'linear-pattern' })
  }

  #get(source: string): Pattern {
    const pattern = this.#known.get(source) ?? this.#made(source)
    this.#known.set(source, pattern)
    return pattern
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
