import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Counter, Histogram, type Metric, Registry } from 'prom-client'
import { Spreading, Tally } from './tally.ts'

/** What a registry exposes of a metric, its lines in no order of their own. */
async function exposed(metric: object): Promise<string[]> {
  const registry = new Registry()
  registry.registerMetric(metric as Metric)
  return (await registry.metrics()).trim().split('\n').sort()
}

const route = fc.constantFrom('/a', '/b', 'none', '/"c"')
const status = fc.constantFrom(200, 401, 503)

describe('a tally', () => {
  const family = { name: 'requests_total', help: 'Help.', labelNames: ['route', 'status'] }

  it('is exposed as a counter of prom-client that has counted the same', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(route, status)), async (counted) => {
        const tally = new Tally(family)
        const counter = new Counter({ ...family, registers: [] })
        for (const [route, status] of counted) {
          tally.count(route, status)
          counter.inc({ route, status })
        }
        assert.deepEqual(await exposed(tally), await exposed(counter))
      }),
      { numRuns: 50 },
    )
  })

  it('needs no labels', async () => {
    const family = { name: 'errors_total', help: 'Help.', labelNames: [] }
    const tally = new Tally(family)
    assert.ok((await exposed(tally)).includes('errors_total 0'))
    tally.count()
    tally.count()
    assert.ok((await exposed(tally)).includes('errors_total 2'))
  })
})

describe('a spreading', () => {
  const family = { name: 'duration_seconds', help: 'Help.', labelNames: ['route'] }
  const bounds = [0.001, 0.01, 1]

  it('is exposed as a histogram of prom-client that has observed the same', async () => {
    // Binary fractions, whose sum is the same in any order.
    const duration = fc.integer({ min: 0, max: 4096 }).map((n) => n / 2048)
    const observed = fc.array(fc.tuple(route, fc.oneof(duration, fc.constantFrom(...bounds))))
    await fc.assert(
      fc.asyncProperty(observed, async (observations) => {
        const spreading = new Spreading(family, bounds)
        const histogram = new Histogram({ ...family, buckets: bounds, registers: [] })
        for (const [route, seconds] of observations) {
          spreading.observe(seconds, route)
          histogram.observe({ route }, seconds)
        }
        assert.deepEqual(await exposed(spreading), await exposed(histogram))
      }),
      { numRuns: 50 },
    )
  })
})
