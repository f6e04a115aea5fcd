import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import * as prom from 'prom-client'
import { Counter, Gauge, Histogram } from './metric-families.ts'

/** What a registry exposes of a metric, with its lines sorted. */
async function exposed(metric: object): Promise<string[]> {
  const registry = new prom.Registry()
  registry.registerMetric(metric as prom.Metric)
  return (await registry.metrics()).trim().split('\n').sort()
}

const route = fc.constantFrom('/a', '/b', 'none', '/"c"')
const status = fc.constantFrom(200, 401, 503)

describe('a counter', () => {
  const family = { name: 'requests_total', help: 'Help.', labels: ['route', 'status'] }

  it('is exposed as a counter of prom-client that has counted the same', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(route, status)), async (counted) => {
        const counter = new Counter(family)
        const other = new prom.Counter({ ...family, labelNames: family.labels, registers: [] })
        for (const [route, status] of counted) {
          counter.count(route, status)
          other.inc({ route, status })
        }
        assert.deepEqual(await exposed(counter), await exposed(other))
      }),
      { numRuns: 50 },
    )
  })

  it('needs no labels, and has no sample until it begins', async () => {
    const counter = new Counter({ name: 'errors_total', help: 'Help.', labels: [] as const })
    assert.deepEqual(counter.samples(), [])
    counter.begin()
    assert.ok((await exposed(counter)).includes('errors_total 0'))
    counter.count()
    counter.add(2)
    assert.ok((await exposed(counter)).includes('errors_total 3'))
  })
})

describe('a gauge', () => {
  it('has the values that were set last', async () => {
    const gauge = new Gauge({ name: 'ready', help: 'Help.', labels: ['part'] as const })
    gauge.set(1, 'a')
    gauge.set(0, 'a')
    gauge.set(1, 'b')
    assert.deepEqual((await exposed(gauge)).slice(2), ['ready{part="a"} 0', 'ready{part="b"} 1'])
  })

  it('reads its values at each scrape, and forgets those that are no more', async () => {
    const gauge = new Gauge({ name: 'age', help: 'Help.', labels: ['of'] as const })
    const ages = new Map([['a', 1]])
    gauge.read(() => ages)
    assert.deepEqual(gauge.samples(), [{ labels: { of: 'a' }, value: 1 }])
    ages.delete('a')
    assert.deepEqual(gauge.samples(), [])
    const single = new Gauge({ name: 'size', help: 'Help.', labels: [] as const })
    single.read(() => 7)
    assert.deepEqual(single.samples(), [{ labels: {}, value: 7 }])
  })
})

describe('a histogram', () => {
  const family = { name: 'duration_seconds', help: 'Help.', labels: ['route'] }
  const bounds = [0.001, 0.01, 1]

  it('is exposed as a histogram of prom-client that has observed the same', async () => {
    // Binary fractions, whose sum is the same in any order.
    const duration = fc.integer({ min: 0, max: 4096 }).map((n) => n / 2048)
    const observed = fc.array(fc.tuple(route, fc.oneof(duration, fc.constantFrom(...bounds))))
    await fc.assert(
      fc.asyncProperty(observed, async (observations) => {
        const histogram = new Histogram(family, bounds)
        const other = new prom.Histogram({
          ...family,
          labelNames: family.labels,
          buckets: bounds,
          registers: [],
        })
        for (const [route, seconds] of observations) {
          histogram.observe(seconds, route)
          other.observe({ route }, seconds)
        }
        assert.deepEqual(await exposed(histogram), await exposed(other))
      }),
      { numRuns: 50 },
    )
  })

  it('reads at each scrape what was counted elsewhere', async () => {
    const read = { counts: [0, 0, 0, 0], sum: 0 }
    const histogram = new Histogram({ ...family, labels: [] as const }, bounds)
    assert.deepEqual(histogram.samples(), [])
    histogram.read(() => read)
    read.counts = [1, 0, 2, 1]
    read.sum = 4.5
    const values = histogram.samples().map(({ value }) => value)
    assert.deepEqual(values, [1, 1, 3, 4, 4.5, 4])
  })
})
