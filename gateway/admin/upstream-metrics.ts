import { Gauge, type Registry } from 'prom-client'
import type { UpstreamGroup } from '../config/upstreams/upstream-group.ts'
import type { RetryOutcome } from '../upstream/balancing/retry-budget.ts'
import type { GroupTarget } from '../upstream/upstream-groups.ts'
import { Tally } from './tally.ts'

const OUTCOMES: readonly RetryOutcome[] = ['succeeded', 'failed', 'denied']
const STATES = { closed: 0, 'half-open': 1, open: 2 } as const

/** What is known of the upstreams. The gauges are read when the page is asked for. */
export function upstreamMetrics(registers: Registry[]) {
  let targets: () => readonly GroupTarget[] = () => []
  new Gauge({
    name: 'gateway_upstream_healthy',
    help: '0 when the last connection to the upstream failed or its health checks do, else 1.',
    labelNames: ['upstream'],
    registers,
    collect() {
      this.reset()
      // One that is in two groups: the same way.
      const unhealthy = new Set(targets().flatMap(({ url, health }) => (health.isHealthy ? [] : [url])))
      for (const { url } of targets()) this.set({ upstream: url }, unhealthy.has(url) ? 0 : 1)
    },
  })
  new Gauge({
    name: 'gateway_upstream_breaker_state',
    help: 'Circuit breaker of the upstream: 0 closed, 1 half open, 2 open. No sample without a breaker.',
    labelNames: ['upstream'],
    registers,
    collect() {
      this.reset()
      const states = new Map<string, number>()
      for (const { url, breaker } of targets()) {
        if (breaker !== undefined) states.set(url, Math.max(states.get(url) ?? 0, STATES[breaker.state]))
      }
      for (const [upstream, state] of states) this.set({ upstream }, state)
    },
  })
  const opened = new Tally({
    name: 'gateway_upstream_breaker_opened_total',
    help: 'How often the circuit breaker of the upstream opened.',
    labelNames: ['upstream'],
  })
  const retries = new Tally({
    name: 'gateway_upstream_retries_total',
    help: 'Requests sent again as the retries of their group ask, by outcome; denied: the budget had none left.',
    labelNames: ['group', 'outcome'],
  })
  return {
    families: [opened, retries],
    methods: {
      /** Where the gauges are read. @param known those in force now */
      watchUpstreams: (known: () => readonly GroupTarget[]) => {
        targets = known
      },
      /** Counters begin at 0. */
      beginGroups: (groups: readonly UpstreamGroup[]) => {
        for (const { name, targets, breaker, retry } of groups) {
          if (breaker !== undefined) for (const target of targets) opened.begin(target)
          if (retry !== undefined) for (const outcome of OUTCOMES) retries.begin(name, outcome)
        }
      },
      breakerOpened: (upstream: string) => opened.count(upstream),
      upstreamRetry: (group: string, outcome: RetryOutcome) => retries.count(group, outcome),
    },
  }
}
