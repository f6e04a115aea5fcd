import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryDirectory } from '../trail.test-support.ts'
import { keepKnownTime, readKnownTime, SteadyWallClock } from './steady-wall-clock.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const YEAR_MS = 365 * DAY_MS
const BEGIN_MS = Date.UTC(2026, 0, 1)

/** A machine whose clock says `offsetMs` more than the time that has passed since 2026. */
function machine() {
  const at = { passedMs: 0, offsetMs: 0 }
  const begin = (knownMs?: number) =>
    new SteadyWallClock(
      knownMs,
      () => BEGIN_MS + at.passedMs + at.offsetMs,
      () => at.passedMs,
    )
  return { at, begin }
}

test('a clock that jumps forward by years does not end the retention of everything', () => {
  const { at, begin } = machine()
  const clock = begin()
  at.offsetMs = 9 * YEAR_MS
  assert.equal(clock.now(), BEGIN_MS + HOUR_MS)
  assert.equal(clock.doubtfulMs, 9 * YEAR_MS - HOUR_MS)
  at.passedMs = HOUR_MS
  assert.equal(clock.now(), BEGIN_MS + 2 * HOUR_MS)
  at.offsetMs = 0
  assert.deepEqual([clock.now(), clock.doubtfulMs], [BEGIN_MS + HOUR_MS, 0])
})

test('a clock that is wrong when the process starts, and at each later start, is not believed either', () => {
  const { at, begin } = machine()
  at.offsetMs = YEAR_MS
  let knownMs = BEGIN_MS
  for (let start = 0; start < 100; start++) {
    const clock = begin(knownMs)
    at.passedMs += 60_000
    assert.equal(clock.now(), BEGIN_MS + at.passedMs + HOUR_MS)
    knownMs = clock.knownMs
  }
  assert.equal(knownMs, BEGIN_MS + at.passedMs)
})

test('a clock that stays ahead for a day is believed: it was set right, or the process was down for long', () => {
  const { at, begin } = machine()
  at.offsetMs = YEAR_MS
  for (const knownMs of [BEGIN_MS, 0]) {
    const clock = begin(knownMs)
    const beganMs = at.passedMs
    for (; at.passedMs < beganMs + DAY_MS; at.passedMs += HOUR_MS) assert.ok(clock.doubtfulMs > 0)
    assert.deepEqual([clock.doubtfulMs, clock.now()], [0, BEGIN_MS + at.passedMs + YEAR_MS])
  }
})

test('a clock that jumps again and again is not believed', () => {
  const { at, begin } = machine()
  const clock = begin()
  for (let hour = 0; hour < 200; hour++) {
    at.passedMs += HOUR_MS
    at.offsetMs += 2 * HOUR_MS
    clock.now()
  }
  assert.equal(clock.now(), BEGIN_MS + at.passedMs + HOUR_MS)
})

test('a clock that was set back is followed at once, and is believed when it stays so', () => {
  const { at, begin } = machine()
  const clock = begin()
  at.offsetMs = -YEAR_MS
  assert.equal(clock.now(), BEGIN_MS - YEAR_MS)
  at.passedMs = DAY_MS + 1
  clock.now()
  at.offsetMs = 0
  assert.equal(clock.now(), BEGIN_MS + at.passedMs - YEAR_MS + HOUR_MS)
})

test('the known time is kept for the next process; without it, the time of the last closed segment counts', (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  assert.equal(readKnownTime(file), undefined)
  fs.writeFileSync(`${file}.20260102T000000000Z`, '')
  fs.writeFileSync(`${file}.20260103T000000000Z.zst`, '')
  assert.equal(readKnownTime(file), Date.UTC(2026, 0, 3))
  keepKnownTime(file, BEGIN_MS + 1)
  assert.equal(readKnownTime(file), BEGIN_MS + 1)
  fs.writeFileSync(`${file}.clock`, 'never\n')
  assert.equal(readKnownTime(file), Date.UTC(2026, 0, 3))
})
