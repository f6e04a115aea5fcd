import assert from 'node:assert/strict'
import { it } from 'node:test'
import { RepeatedFault } from './repeated-fault.ts'

const FULL = 'ENOSPC: no space left on device, write'

/** Gives a fault each second. @returns what is logged */
function logged(causes: readonly string[]): readonly (readonly [second: number, times?: number])[] {
  let second = 0
  const fault = new RepeatedFault(60_000, () => second * 1000)
  return causes.flatMap((cause, i) => {
    second = i
    const due = fault.due(cause)
    return due === undefined ? [] : [[i, due.times ?? 1] as const]
  })
}

it('a fault that comes each second is logged at once, then each minute with how often it came', () => {
  assert.deepEqual(logged(Array.from({ length: 130 }, () => FULL)), [
    [0, 1],
    [60, 60],
    [120, 60],
  ])
})

it('faults that differ in names of files, or take turns, are logged no more often', () => {
  const names = Array.from({ length: 50 }, (_, i) => `ENOSPC: no space left on device, open '/t/${i}.tmp'`)
  assert.deepEqual(logged(names), [[0, 1]])
  const turns = Array.from({ length: 50 }, (_, i) => (i % 2 === 0 ? FULL : 'EIO: i/o error, fsync'))
  assert.deepEqual(logged(turns), [
    [0, 1],
    [1, 1],
  ])
  const letters = Array.from({ length: 26 }, (_, i) => String.fromCharCode(97 + i))
  assert.equal(logged(letters).length, 4)
})

it('a kind that comes seldom keeps its count while another comes each second', () => {
  const causes = Array.from({ length: 70 }, (_, i) => (i % 7 === 6 ? 'EIO: i/o error, fsync' : FULL))
  assert.deepEqual(logged(causes), [
    [0, 1],
    [6, 1],
    [60, 52],
    [69, 9],
  ])
})

it('the first fault after a recovery is logged at once', () => {
  const fault = new RepeatedFault(60_000, () => 0)
  assert.deepEqual(fault.due(FULL), { cause: FULL })
  assert.equal(fault.due(FULL), undefined)
  assert.deepEqual([fault.end(), fault.cause, fault.end()], [true, undefined, false])
  assert.deepEqual(fault.due(FULL), { cause: FULL })
})
