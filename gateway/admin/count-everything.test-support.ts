import type { Exchange } from '../exchange.ts'
import type { Metrics } from './metrics.ts'

/** Counts everything that there is to count but the shared store, so that every metric has a sample. */
export function countEverything(metrics: Metrics): void {
  for (let request = 0; request < 3; request++) metrics.opened()
  const route = { path: '/a "quoted" \\ path' }
  metrics.closed({ method: 'GET', route, grpcStatus: 14 } as Exchange, 200, 0.25)
  metrics.closed({ method: 'BREW', refusalCode: 'not_found' } as Exchange, 404, 31)
  metrics.abandoned(3)
  for (let tunnel = 0; tunnel < 2; tunnel++) metrics.tunnelOpened()
  metrics.tunnelEnded('closed')
  metrics.upstreamAnswered('http://127.0.0.1:4000', 0.001)
  const target = { group: 'default', url: 'http://127.0.0.1:4000', health: { isHealthy: false } }
  metrics.watchUpstreams(() => [{ ...target, breaker: { state: 'open' } }])
  metrics.breakerOpened(target.url)
  metrics.upstreamRetry('default', 'succeeded')
  metrics.authDecision('jwt', 'accepted')
  metrics.issuerKeys(() => [['https://issuer.example', 7000]])
  metrics.overlooked('/shadow/*', 'missing_token')
  metrics.limitDecision('transfers', 'shadow_refused')
  metrics.auditRecord('API_REQUEST')
  metrics.auditWriteError()
  metrics.auditPending(() => 2)
  metrics.spansExported(2)
  metrics.spansDropped('queue_full', 3)
  metrics.storeWritable('limits', true)
  metrics.storeWriteError('limits')
  metrics.configReload('limits.json', 'failure')
  metrics.certificateExpiry(1_800_000_000)
  metrics.clientTrustExpiry({ authorities: 1_900_000_000_000, lists: Number.POSITIVE_INFINITY })
  const seals = metrics.seals({ lagMs: 750, unsealedRecords: 12, sealedSize: 70_000 })
  seals.sealed(1_700_000_000_000)
  seals.fault()
  seals.gap()
  metrics.state({ isReady: () => true, isTrailWritable: () => false })
  const { witnesses, stamps } = metrics.vouching
  const { progress, failed } = witnesses(['w.example/1'], 60_000)
  progress({ sealed: 9, vouched: 4, behindSinceMs: undefined })
  failed('w.example/1', 'conflict')
  stamps(3_600_000).failed()
}
