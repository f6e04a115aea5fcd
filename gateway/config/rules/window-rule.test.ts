import assert from 'node:assert/strict'
import { test } from 'node:test'
import { windowToMs } from './window-rule.ts'

test('a window is a number and a unit, and without a known unit it is NaN', () => {
  for (const [window, ms] of [
    ['30s', 30_000],
    ['1m', 60_000],
    ['2h', 7_200_000],
    ['1d', 86_400_000],
    ['1w', Number.NaN],
    ['60', Number.NaN],
    ['', Number.NaN],
  ] as const) {
    assert.equal(windowToMs(window), ms)
  }
})
