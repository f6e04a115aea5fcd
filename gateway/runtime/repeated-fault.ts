/** Kinds of faults that are logged in one period. */
const MAX_KINDS = 4

/** Tells which faults to log: a full disk fails every request, and the log may be on the same disk. */
export class RepeatedFault {
  readonly #repeatMs: number
  readonly #now: () => number
  /** When each kind was logged last, and how often it has come since then. */
  readonly #kinds = new Map<string, { readonly loggedAtMs: number; times: number }>()
  cause: string | undefined = undefined

  constructor(repeatMs = 60_000, now = () => performance.now()) {
    this.#repeatMs = repeatMs
    this.#now = now
  }

  /** @returns what to log: the first fault of a kind, later how many `times` it has come since then. Names of files make no kind. */
  due(cause: string): { readonly cause: string; readonly times?: number } | undefined {
    const nowMs = this.#now()
    const kind = cause.replaceAll(/'[^']*'/g, '')
    const before = this.#kinds.get(kind)
    const times = (before?.times ?? 0) + 1
    this.cause = cause
    for (const [each, { loggedAtMs }] of this.#kinds)
      if (nowMs - loggedAtMs >= this.#repeatMs) this.#kinds.delete(each)
    const last = this.#kinds.get(kind)
    if (last !== undefined) last.times = times
    if (last !== undefined || this.#kinds.size >= MAX_KINDS) return undefined
    this.#kinds.set(kind, { loggedAtMs: nowMs, times: 0 })
    return times === 1 ? { cause } : { cause, times }
  }

  /** The next fault is a first one again. */
  end(): void {
    this.#kinds.clear()
    this.cause = undefined
  }
}
