/** Limit on the kinds of faults that are logged in one period. */
const MAX_KINDS = 4

/** Tells which faults to log: a full disk fails every request, and the log may be on that disk. */
export class RepeatedFault {
  readonly #repeatMs: number
  readonly #now: () => number
  /** When each kind was last logged, and how often it has come since. */
  readonly #kinds = new Map<string, { readonly loggedAtMs: number; times: number }>()
  cause: string | undefined = undefined

  constructor(repeatMs = 60_000, now = () => performance.now()) {
    this.#repeatMs = repeatMs
    this.#now = now
  }

  /**
   * Counts a fault. Faults that differ only in file names are of one kind.
   *
   * @returns what to log: the first fault of a kind, later how many `times` it has come since
   */
  due(cause: string): { readonly cause: string; readonly times?: number } | undefined {
    const nowMs = this.#now()
    const isRecent = ({ loggedAtMs }: { readonly loggedAtMs: number }) => nowMs - loggedAtMs < this.#repeatMs
    const kind = cause.replaceAll(/'[^']*'/g, '')
    const last = this.#kinds.get(kind)
    const times = (last?.times ?? 0) + 1
    this.cause = cause
    if (last !== undefined) last.times = times
    else if (this.#kinds.size === MAX_KINDS)
      for (const [each, one] of this.#kinds) if (!isRecent(one)) this.#kinds.delete(each)
    if (last === undefined ? this.#kinds.size === MAX_KINDS : isRecent(last)) return undefined
    this.#kinds.set(kind, { loggedAtMs: nowMs, times: 0 })
    return times === 1 ? { cause } : { cause, times }
  }

  /** Makes the next fault a first one again. @returns false when there was no fault */
  end(): boolean {
    const hadFault = this.cause !== undefined
    this.#kinds.clear()
    this.cause = undefined
    return hadFault
  }
}
