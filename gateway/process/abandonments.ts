import type { Gateway } from '../gateway.ts'

/** At most one log line in this time. */
const LOG_EVERY_MS = 1000

/**
 * Reports pipelined requests whose client disconnected before the gateway began them. They have no audit records: the metric
 * counts all of them, the log names some of the clients.
 */
export class Abandonments {
  readonly #gateway: Pick<Gateway, 'log' | 'metrics' | 'steadyClock'>
  #loggedSteadyMs = Number.NEGATIVE_INFINITY

  constructor(gateway: Pick<Gateway, 'log' | 'metrics' | 'steadyClock'>) {
    this.#gateway = gateway
  }

  /** @param ip of the connection's other end */
  note(ip: string, requests: number): void {
    const { log, metrics, steadyClock } = this.#gateway
    metrics.abandoned(requests)
    const nowMs = steadyClock()
    if (nowMs - this.#loggedSteadyMs < LOG_EVERY_MS) return
    this.#loggedSteadyMs = nowMs
    log.info({ ip, requests }, 'a client went away before its requests could be begun')
  }
}
