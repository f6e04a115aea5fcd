import type { Gateway } from '../gateway.ts'

/** One line a second. */
const TELL_EVERY_MS = 1000

/**
 * What is said of requests that were sent ahead by clients who then went away. None of them was begun, so none has an audit
 * pair: the metric counts them all, the log names some of the clients.
 */
export class Abandonments {
  readonly #gateway: Pick<Gateway, 'log' | 'metrics' | 'steadyClock'>
  #toldSteadyMs = Number.NEGATIVE_INFINITY

  constructor(gateway: Pick<Gateway, 'log' | 'metrics' | 'steadyClock'>) {
    this.#gateway = gateway
  }

  /** @param ip of the connection's other end */
  note(ip: string, requests: number): void {
    const { log, metrics, steadyClock } = this.#gateway
    metrics.abandoned(requests)
    const nowMs = steadyClock()
    if (nowMs - this.#toldSteadyMs < TELL_EVERY_MS) return
    this.#toldSteadyMs = nowMs
    log.info({ ip, requests }, 'a client went away before its requests could be begun')
  }
}
