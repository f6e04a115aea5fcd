import { networkOf } from '../../edge/rules/network.ts'

export interface Caller {
  readonly address: string
  /** True once nobody waits for the result. */
  readonly closed: boolean
}

interface Waiting {
  readonly caller: Caller
  readonly run: () => void
}

const MOST_MS = 2

/** Bounds the time for new tokens in a turn of the event loop: no flood may delay known tokens. Networks take turns. */
export class FairTurns {
  readonly #clock: () => number
  readonly #waiting = new Map<string, Waiting[]>()
  readonly #onTurnEnd = () => this.#nextTurn()
  #spentMs = 0
  #isTurnEndAwaited = false

  /** @param clock monotonic milliseconds */
  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock
  }

  /** Does `work` at once while time is left in this turn, else in a later turn, unless the caller has gone. */
  take<T>(caller: Caller, work: () => T | Promise<T>): T | Promise<T> {
    if (this.#spentMs < MOST_MS && this.#waiting.size === 0) return this.#spend(work)
    const later = async () => this.#spend(work)
    const queue = this.#waiting.getOrInsert(networkOf(caller.address), [])
    return new Promise((resolve) => queue.push({ caller, run: () => resolve(later()) }))
  }

  #spend<T>(work: () => T): T {
    if (!this.#isTurnEndAwaited) setImmediate(this.#onTurnEnd)
    this.#isTurnEndAwaited = true
    const startMs = this.#clock()
    try {
      return work()
    } finally {
      this.#spentMs += this.#clock() - startMs
    }
  }

  #nextTurn(): void {
    this.#isTurnEndAwaited = false
    this.#spentMs = 0
    for (const [network, queue] of this.#waiting) {
      if (this.#spentMs >= MOST_MS) return
      // A network that still waits goes last, and the iteration comes to it again.
      this.#waiting.delete(network)
      const next = nextOf(queue)
      if (queue.length > 0) this.#waiting.set(network, queue)
      next?.run()
    }
  }
}

function nextOf(queue: Waiting[]): Waiting | undefined {
  const index = queue.findIndex(({ caller }) => !caller.closed)
  const removed = queue.splice(0, index === -1 ? queue.length : index + 1)
  return index === -1 ? undefined : removed[index]
}
