import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Exchange } from '../../exchange.ts'
import { createMetrics, type Metrics } from '../metrics.ts'
import { perSecond, pointBetween, quantileMs, totalsOf } from './totals.ts'

function close(metrics: Metrics, status: number, seconds: number, refusalCode?: string): void {
  const exchange = { method: 'GET', route: { path: '/a' }, refusalCode } as unknown as Exchange
  metrics.closed(exchange, status, seconds)
}

it('tells rates and percentiles of what happened between two moments, and of nothing before', async () => {
  const metrics = createMetrics({ version: '1' })
  close(metrics, 200, 20)
  const before = totalsOf(metrics, 10_000)
  for (let i = 0; i < 90; i++) close(metrics, i < 80 ? 200 : 304, 0.004)
  for (let i = 0; i < 8; i++) close(metrics, 429, 0.0005, 'limit_exceeded')
  for (let i = 0; i < 2; i++) close(metrics, 502, 2)
  const point = pointBetween(before, totalsOf(metrics, 12_000))
  assert.deepEqual(
    { ...point, p50Ms: 0, p95Ms: 0, p99Ms: 0 },
    {
      t: 12,
      ok: 45,
      clientErrors: 4,
      serverErrors: 1,
      refused: 4,
      p50Ms: 0,
      p95Ms: 0,
      p99Ms: 0,
    },
  )
  assert.ok(point.p50Ms !== null && point.p50Ms > 2.5 && point.p50Ms < 5, String(point.p50Ms))
  assert.ok(point.p99Ms !== null && point.p99Ms > 1000 && point.p99Ms <= 2500, String(point.p99Ms))
})

it('has no latency while nothing is requested, and no negative rate when a counter begins anew', async () => {
  const metrics = createMetrics({ version: '1' })
  const before = totalsOf(metrics, 0)
  const { p50Ms, ok } = pointBetween(before, totalsOf(metrics, 1000))
  assert.deepEqual([p50Ms, ok], [null, 0])
  assert.equal(perSecond(5, 1, 1000), 0)
  assert.equal(perSecond(undefined, 3, 0), 0)
})

it('computes quantiles as Prometheus does', () => {
  const spread = (...counts: number[]) => ({ boundsSeconds: [0.1, 0.2, Number.POSITIVE_INFINITY], counts })
  assert.equal(quantileMs(0.5, undefined, spread(10, 10, 10)), 50)
  assert.equal(quantileMs(0.75, undefined, spread(10, 20, 20))?.toFixed(6), '150.000000')
  // Above the last bound nothing more is known than the bound.
  assert.equal(quantileMs(0.99, undefined, spread(0, 0, 10)), 200)
  assert.equal(quantileMs(0.5, spread(10, 10, 10), spread(10, 20, 20))?.toFixed(6), '150.000000')
  assert.equal(quantileMs(0.5, undefined, { boundsSeconds: [], counts: [] }), null)
})
