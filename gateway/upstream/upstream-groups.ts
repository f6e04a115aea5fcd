import { isDeepStrictEqual } from 'node:util'
import type {
  HealthCheckSettings,
  UpstreamGroup,
  UpstreamTlsFiles,
} from '../config/upstreams/upstream-group.ts'
import { FairPermits } from '../edge/rules/fair-share.ts'
import { after } from '../edge/syntax/deadlines.ts'
import type { Field } from '../edge/syntax/field.ts'
import type { BreakerState, CircuitBreaker } from './balancing/circuit-breaker.ts'
import type { Health } from './balancing/health.ts'
import type { RetryOutcome } from './balancing/retry-budget.ts'
import { createUpstreams, type UpstreamClient } from './create-upstreams.ts'
import { type CheckTimers, HealthCheck } from './health-check.ts'
import type { PoolBounds } from './pool.ts'
import type { UpstreamTlsTerms } from './upstream-tls.ts'

export interface GroupObserver {
  onHealth(group: string, upstream: string, healthy: boolean): void
  onCheck(group: string, upstream: string, check: { readonly isUp: boolean; readonly cause: string }): void
  onBreaker(group: string, upstream: string, state: BreakerState): void
  onRetry(group: string, outcome: RetryOutcome): void
}

export interface GroupsOptions extends PoolBounds {
  readonly groups: readonly UpstreamGroup[]
  readonly tls: UpstreamTlsFiles
  readonly headersMs: number
  /** Monotonic. */
  readonly clock: () => number
  readonly observer: GroupObserver
  /** Sent with health checks. */
  readonly upstreamSecret: Field | undefined
  readonly timers?: CheckTimers
}

export interface GroupTarget {
  readonly group: string
  readonly url: string
  readonly health: Pick<Health, 'isHealthy' | 'cause' | 'attempts'>
  readonly breaker: Pick<CircuitBreaker, 'state' | 'cause'> | undefined
}

interface CheckTerms {
  readonly group: string
  readonly url: string
  readonly settings: HealthCheckSettings
  readonly tls: UpstreamTlsTerms | undefined
  readonly upstreamSecret: Field | undefined
}

const TIMERS: CheckTimers = { after, random: Math.random }

export class UpstreamGroups {
  readonly #options: GroupsOptions
  readonly #clients: ReadonlyMap<string, UpstreamClient>
  readonly #permits = new Map<string, FairPermits>()
  readonly #checks = new Map<Health, { readonly check: HealthCheck; readonly terms: CheckTerms }>()

  /** Keeps connections, health and checks of targets in the same group of `before`, which only `handOver` changes. */
  constructor(options: GroupsOptions, before?: UpstreamGroups) {
    this.#options = options
    const known = before === undefined ? undefined : before.#clients
    this.#clients = new Map(
      options.groups.map((group) => [group.name, clientOf(group, options, known?.get(group.name))]),
    )
    for (const { name, maxInFlight } of options.groups) {
      if (maxInFlight === undefined) continue
      // Requests in flight still count.
      this.#permits.set(name, before?.permitsOf(name) ?? new FairPermits(maxInFlight))
    }
  }

  /** @throws Error when there is no such group */
  of(name: string): UpstreamClient {
    const client = this.#clients.get(name)
    if (client === undefined) throw new Error(`no upstream group ${name}`)
    return client
  }

  /** Undefined when the group has no bound of its own. */
  permitsOf(name: string): FairPermits | undefined {
    return this.#permits.get(name)
  }

  get targets(): readonly GroupTarget[] {
    return [...this.#clients].flatMap(([group, { targets }]) =>
      targets.map((target) => ({ ...target, group })),
    )
  }

  get #terms(): ReadonlyMap<Health, CheckTerms | undefined> {
    const { groups, upstreamSecret } = this.#options
    const terms = groups.flatMap((group) =>
      this.of(group.name).targets.map(({ url, health }) => {
        const { name, healthCheck: settings } = group
        const tls = termsOf(group, this.#options)
        return [health, settings && { group: name, url, settings, tls, upstreamSecret }] as const
      }),
    )
    return new Map(terms)
  }

  start(): void {
    for (const [health, terms] of this.#terms)
      if (terms !== undefined && !this.#checks.has(health)) this.#startCheck(health, terms)
  }

  handOver(successor: UpstreamGroups): void {
    for (const [name, client] of this.#clients)
      client.handOver(successor.#clients.get(name), successor.#options)
    for (const { name, maxInFlight } of successor.#options.groups) {
      if (maxInFlight !== undefined) successor.permitsOf(name)?.bound(maxInFlight)
    }
    const next = successor.#terms
    for (const [health, known] of this.#checks) {
      const terms = next.get(health)
      if (isDeepStrictEqual(known.terms, terms)) successor.#checks.set(health, known)
      else void known.check.stop()
      // The last check may have found the target down, and no further check follows.
      if (next.has(health) && terms === undefined) health.checked(true)
    }
    this.#checks.clear()
    successor.start()
  }

  async close(): Promise<void> {
    const checks = [...this.#checks.values()].map(({ check }) => check.stop())
    await Promise.all([...checks, ...[...this.#clients.values()].map((client) => client.close())])
  }

  #startCheck(health: Health, terms: CheckTerms): void {
    const { clock, observer, timers = TIMERS } = this.#options
    const { group, url, tls, settings } = terms
    const check = new HealthCheck({
      ...terms,
      health,
      client: createUpstreams({
        urls: [url],
        connectMs: settings.timeoutMs,
        headersMs: settings.timeoutMs,
        maxConnections: 2,
        tls,
        clock,
        onHealth: () => undefined,
      }),
      timers,
      onChange: (isUp, cause) => observer.onCheck(group, url, { isUp, cause }),
    })
    this.#checks.set(health, { check, terms })
    check.start()
  }
}

function termsOf({ name, tls }: UpstreamGroup, { tls: files }: GroupsOptions): UpstreamTlsTerms | undefined {
  if (tls === undefined) return undefined
  const { serverName, minVersion, maxVersion } = tls
  const { ca, cert, key } = files[name] ?? {}
  return { ca, cert, key, serverName, minVersion, maxVersion }
}

function clientOf(
  group: UpstreamGroup,
  options: GroupsOptions,
  before: UpstreamClient | undefined,
): UpstreamClient {
  const { name, targets, breaker, retry, slowStartMs } = group
  const { connectMs, maxConnections, headersMs, clock, observer } = options
  return createUpstreams(
    {
      urls: targets,
      connectMs,
      headersMs,
      maxConnections,
      clock,
      policy: { breaker, retry, slowStartMs },
      tls: termsOf(group, options),
      onHealth: (upstream, healthy) => observer.onHealth(name, upstream, healthy),
      onBreaker: (upstream, state) => observer.onBreaker(name, upstream, state),
      onRetry: (outcome) => observer.onRetry(name, outcome),
    },
    before,
  )
}
