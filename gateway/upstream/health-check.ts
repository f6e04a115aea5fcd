import type { HealthCheckSettings } from '../config/upstreams/upstream-group.ts'
import { Field } from '../edge/syntax/field.ts'
import type { Health } from './balancing/health.ts'
import type { UpstreamClient } from './create-upstreams.ts'
import { hostOf } from './upstream-address.ts'
import type { UpstreamRequest, UpstreamResponse } from './upstream-client.ts'

/** A connection is not used again after a longer response body. */
const MAX_BODY_BYTES = 64 * 1024
/** The first check comes at a random moment within this time. */
const FIRST_MS = 1000
/** Intervals vary by this fraction, so that gateways do not check in step. */
const JITTER = 0.1

export interface CheckTimers {
  /** @returns a function that cancels the call */
  after(ms: number, run: () => void): () => void
  /** From 0 up to 1. */
  random(): number
}

interface HealthCheckOptions {
  readonly url: string
  readonly settings: HealthCheckSettings
  /** The only credential that is sent. */
  readonly upstreamSecret: Field | undefined
  readonly health: Health
  /** A client of this target alone. */
  readonly client: Pick<UpstreamClient, 'send' | 'close'>
  readonly timers: CheckTimers
  /** @param cause of the last bad check */
  readonly onChange: (isUp: boolean, cause: string) => void
}

/**
 * Checks one target at intervals. It is down after `unhealthyAfter` bad checks in a row, up after `healthyAfter` good
 * ones. A good check also ends the back-off of `Health`, because the target can be connected to.
 */
export class HealthCheck {
  readonly #options: HealthCheckOptions
  readonly #request: UpstreamRequest
  #inRow = 0
  #cause = ''
  #isStopped = false
  #cancel: () => void = () => undefined

  constructor(options: HealthCheckOptions) {
    this.#options = options
    this.#request = checkRequest(options)
  }

  start(): void {
    const { health, settings, timers } = this.#options
    // Checks under earlier settings, perhaps wrong ones, found the target down, so one good check is enough.
    if (!health.passesChecks) this.#inRow = settings.healthyAfter - 1
    this.#cancel = timers.after(Math.min(FIRST_MS, settings.intervalMs) * timers.random(), () =>
      this.#check(),
    )
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancel()
    await this.#options.client.close()
  }

  #check(): void {
    const { client, settings, timers } = this.#options
    let bytes = 0
    let known = false
    const judge = (isGood: boolean, cause: string) => {
      if (known) return
      known = true
      this.#count(isGood, cause)
    }
    const over = () => {
      const ms = settings.intervalMs * (1 - JITTER + 2 * JITTER * timers.random())
      if (!this.#isStopped) this.#cancel = timers.after(ms, () => this.#check())
    }
    const response: UpstreamResponse = {
      isHolding: false,
      information: () => undefined,
      head: (status) => judge(this.#isGood(status), `status ${status}`),
      data: (chunk) => {
        bytes += chunk.length
        if (bytes <= MAX_BODY_BYTES) return true
        call.abort()
        over()
        return false
      },
      end: over,
      upgrade: (_fields, socket) => {
        socket.destroy()
        over()
      },
      fault: ({ kind, cause }) => {
        judge(false, `${kind}: ${cause}`)
        over()
      },
    }
    const call = client.send(this.#request, response)
    this.#cancel = () => call.abort()
  }

  #isGood(status: number): boolean {
    const { statuses } = this.#options.settings
    return statuses === undefined ? status >= 200 && status < 300 : statuses.includes(status)
  }

  #count(isGood: boolean, cause: string): void {
    const { health, settings, onChange } = this.#options
    if (this.#isStopped) return
    if (isGood) health.connected()
    else this.#cause = cause
    this.#inRow = isGood === health.passesChecks ? 0 : this.#inRow + 1
    if (this.#inRow < (isGood ? settings.healthyAfter : settings.unhealthyAfter)) return
    this.#inRow = 0
    health.checked(isGood, this.#cause)
    onChange(isGood, this.#cause)
  }
}

function checkRequest({ url, settings, upstreamSecret }: HealthCheckOptions): UpstreamRequest {
  const host = settings.host ?? hostOf(url)
  const fields = [new Field('Host', host), new Field('User-Agent', 'countersign-health-check')]
  return {
    method: 'GET',
    target: settings.path,
    fields: upstreamSecret === undefined ? fields : [...fields, upstreamSecret],
    body: null,
    upgrade: undefined,
    idleMs: settings.timeoutMs,
    totalMs: settings.timeoutMs,
  }
}
