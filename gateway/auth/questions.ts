import { networkOf } from '../edge/rules/network.ts'
import type { Caller } from './tokens/fair-turns.ts'

/** Metrics count the first two reasons. */
export type Unasked = 'breaker_open' | 'too_many' | 'client_gone'

export interface Asked<Answer> {
  readonly answer: Answer
  /** False when the endpoint failed. An endpoint that refuses only this question has not failed. */
  readonly isThere: boolean
}

interface Question<Answer> {
  /** A question gets the answer of a pending one that has the same name. */
  readonly name: string
  readonly caller: Caller
  /** Must not reject. */
  readonly ask: () => Promise<Asked<Answer>>
  /** Called in place of `ask` for a question that has waited: its answer may be known by then. */
  readonly again: () => Answer | Promise<Answer>
}

interface QuestionsOptions<Answer> {
  /** How long one question may take, and how long it may wait. */
  readonly timeoutMs: number
  readonly steadyClock: () => number
  readonly unasked: (why: Unasked) => Answer
}

export const WHY_UNASKED: Readonly<Record<Unasked, string>> = {
  breaker_open: 'it has failed too often and is given time to recover',
  too_many: 'too many questions wait',
  client_gone: 'its client has gone',
}
export const MAX_CALLS = 64
/** Leaves room for other networks. Further questions wait. */
const MAX_CALLS_OF_NETWORK = 16
/** A waiting question holds its request, even when the client has gone. */
const MAX_WAITING_OF_NETWORK = 256
const FAILURES_TO_OPEN = 5
const FIRST_PAUSE_MS = 1_000
const LAST_PAUSE_MS = 30_000
/** Statuses that may concern one question alone, such as a very long one. The endpoint works, so it gets no pause. */
const REFUSES_ONE: ReadonlySet<number> = new Set([400, 403, 413, 414, 422, 431])

export function refusesOne(statusCode: number): boolean {
  return REFUSES_ONE.has(statusCode)
}

/**
 * Asks an endpoint questions that requests wait for. Networks share it fairly. After five failures in a row it gets a
 * pause of at most 30 s. If only one network has had failures, the others may ask until a question of theirs fails.
 */
export class Questions<Answer> {
  readonly #options: QuestionsOptions<Answer>
  readonly #pending = new Map<string, Promise<Answer>>()
  readonly #callsOfNetworks = new Map<string, number>()
  readonly #waiting = new Map<string, (() => void)[]>()
  /** The first two networks whose questions failed since the last success. */
  readonly #failedNetworks = new Set<string>()
  #failuresInRow = 0
  #pauseMs = FIRST_PAUSE_MS
  #pausedUntilMs = Number.NEGATIVE_INFINITY

  constructor(options: QuestionsOptions<Answer>) {
    this.#options = options
  }

  put(question: Question<Answer>): Answer | Promise<Answer> {
    const { name, caller } = question
    const { steadyClock, unasked } = this.#options
    const pending = this.#pending.get(name)
    if (pending !== undefined) return pending
    const network = networkOf(caller.address)
    const calls = this.#callsOfNetworks.get(network) ?? 0
    if (
      steadyClock() < this.#pausedUntilMs &&
      (this.#failedNetworks.size > 1 || this.#failedNetworks.has(network))
    )
      return unasked('breaker_open')
    if (this.#pending.size >= MAX_CALLS || calls >= MAX_CALLS_OF_NETWORK) return this.#wait(question, network)
    const asked = this.#ask(question, network).finally(() => {
      this.#pending.delete(name)
      const left = (this.#callsOfNetworks.get(network) ?? 1) - 1
      if (left === 0) this.#callsOfNetworks.delete(network)
      else this.#callsOfNetworks.set(network, left)
      this.#askNext()
    })
    this.#pending.set(name, asked)
    this.#callsOfNetworks.set(network, calls + 1)
    return asked
  }

  /** A question that has waited for `timeoutMs` is not asked. */
  #wait({ caller, again }: Question<Answer>, network: string): Answer | Promise<Answer> {
    const { timeoutMs, steadyClock, unasked } = this.#options
    const waiting = this.#waiting.getOrInsert(network, [])
    if (waiting.length >= MAX_WAITING_OF_NETWORK) return unasked('too_many')
    const { promise, resolve } = Promise.withResolvers<Answer>()
    const untilMs = steadyClock() + timeoutMs
    const ask = () => {
      if (caller.closed) resolve(unasked('client_gone'))
      else if (steadyClock() < untilMs) resolve(again())
      else resolve(unasked('too_many'))
    }
    waiting.push(ask)
    return promise
  }

  #askNext(): void {
    for (const [network, waiting] of this.#waiting) {
      if (this.#pending.size >= MAX_CALLS) return
      if ((this.#callsOfNetworks.get(network) ?? 0) >= MAX_CALLS_OF_NETWORK) continue
      const ask = waiting.shift()
      // A network that still waits goes last, and the iteration comes to it again.
      this.#waiting.delete(network)
      if (waiting.length > 0) this.#waiting.set(network, waiting)
      ask?.()
    }
  }

  async #ask({ ask }: Question<Answer>, network: string): Promise<Answer> {
    const { timeoutMs, steadyClock } = this.#options
    // While one question tests whether the endpoint is back, the pause goes on.
    const isTrial = this.#failuresInRow >= FAILURES_TO_OPEN
    if (isTrial) this.#pausedUntilMs = steadyClock() + timeoutMs
    const { answer, isThere } = await ask()
    if (isThere) this.#endPause()
    else this.#countFailure(network, isTrial)
    return answer
  }

  #endPause(): void {
    this.#failuresInRow = 0
    this.#failedNetworks.clear()
    this.#pauseMs = FIRST_PAUSE_MS
    this.#pausedUntilMs = Number.NEGATIVE_INFINITY
  }

  #countFailure(network: string, isTrial: boolean): void {
    this.#failuresInRow += 1
    if (this.#failedNetworks.size < 2) this.#failedNetworks.add(network)
    if (isTrial) this.#pauseMs = Math.min(this.#pauseMs * 2, LAST_PAUSE_MS)
    if (isTrial || this.#failuresInRow === FAILURES_TO_OPEN)
      this.#pausedUntilMs = this.#options.steadyClock() + this.#pauseMs
  }
}
