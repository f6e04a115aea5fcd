import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Histogram } from './histogram.ts'

function histogramOf(values: readonly number[]): Histogram {
  const histogram = new Histogram()
  for (const value of values) histogram.record(value)
  return histogram
}

const latency = fc.integer({ min: 0, max: 2 ** 32 - 1 })
const share = fc.constantFrom(0.001, 0.5, 0.9, 0.99, 0.999, 1)

describe('a histogram of latencies', () => {
  it('never tells less than the exact quantile, nor more than 1/128 above it', () => {
    fc.assert(
      fc.property(fc.array(latency, { minLength: 1, maxLength: 400 }), share, (values, at) => {
        const exact = values.toSorted((a, b) => a - b)[Math.ceil(at * values.length) - 1]!
        const told = histogramOf(values).quantile(at)
        assert.ok(told >= exact && told <= exact * (1 + 1 / 128), `${told} for ${exact}`)
      }),
    )
  })

  it('counts values below 256 µs exactly', () => {
    const histogram = histogramOf(Array.from({ length: 256 }, (_, value) => value))
    for (let value = 0; value < 256; value++) assert.equal(histogram.quantile((value + 1) / 256), value)
  })

  it('tells its greatest value as the highest quantile', () => {
    assert.equal(histogramOf([10, 123_457]).quantile(1), 123_457)
  })

  it('tells 0 when nothing was recorded', () => {
    assert.equal(new Histogram().quantile(0.5), 0)
  })

  it('holds what is out of bounds at the nearest bound', () => {
    const histogram = histogramOf([-5, 2 ** 40])
    assert.equal(histogram.quantile(0.5), 0)
    assert.equal(histogram.quantile(1), 2 ** 32 - 1)
  })

  it('adds up to the same as one histogram of all values', () => {
    fc.assert(
      fc.property(
        fc.array(latency, { maxLength: 50 }),
        fc.array(latency, { maxLength: 50 }),
        (one, other) => {
          const sum = histogramOf(one)
          sum.add(JSON.parse(JSON.stringify(histogramOf(other).counts())))
          const whole = histogramOf([...one, ...other])
          assert.deepEqual(sum.counts(), whole.counts())
          assert.equal(sum.total, whole.total)
          assert.equal(sum.quantile(0.99), whole.quantile(0.99))
        },
      ),
    )
  })
})
