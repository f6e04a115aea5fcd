import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Counters, KeyBudget } from '../limits/windows/counters.ts'
import { AuthThrottle, mayBeGuess, type ThrottleOptions } from './throttle.ts'

const MINUTE_MS = 60_000

/** A throttle over the counters of the limits. It allows three failures in a minute. */
function throttleOf({ maxBlocked = 100 }: Partial<ThrottleOptions> = {}) {
  const room = new KeyBudget()
  const record = {
    id: 1,
    name: 'auth',
    path: '*',
    methods: null,
    limit: 3,
    windowMs: MINUTE_MS,
    horizonMs: null,
  }
  const time = { nowMs: 1_800_000_000_000 }
  const counter = new Counters(record, room)
  room.divide([counter])
  const throttle = new AuthThrottle({ counter, clock: () => time.nowMs, maxBlocked })
  const fail = (key: string, times = 1) => {
    for (let i = 0; i < times; i++) throttle.failed(key)
  }
  return { throttle, time, fail }
}

test('a caller with as many failures as are allowed is refused until the first of them is a window old', () => {
  const { throttle, time, fail } = throttleOf()
  fail('a')
  time.nowMs += 10_000
  fail('a')
  assert.equal(throttle.blockedSeconds('a'), undefined)
  fail('a')
  assert.equal(throttle.blockedSeconds('a'), 50)
  time.nowMs += 49_001
  assert.equal(throttle.blockedSeconds('a'), 1)
  time.nowMs += 999
  assert.equal(throttle.blockedSeconds('a'), undefined)
})

test('the window slides: with two failures still in it, a third one blocks the caller', () => {
  const { throttle, time, fail } = throttleOf()
  fail('a')
  time.nowMs += 30_000
  fail('a', 2)
  time.nowMs += 30_000
  assert.equal(throttle.blockedSeconds('a'), undefined)
  fail('a')
  assert.equal(throttle.blockedSeconds('a'), 30)
})

test('over any window no more failures are let pass than are allowed, however they are spaced', () => {
  const { throttle, time, fail } = throttleOf()
  const failures: number[] = []
  for (let step = 0; step < 2_000; step++) {
    time.nowMs += ((step * 7919) % 13) * 700
    if (throttle.blockedSeconds('a') !== undefined) continue
    fail('a')
    failures.push(time.nowMs)
    assert.ok(failures.filter((atMs) => time.nowMs - atMs < MINUTE_MS).length <= 3)
  }
  assert.ok(failures.length > 100)
})

test('a caller that comes after the named time is let pass', () => {
  const { throttle, time, fail } = throttleOf()
  fail('a', 3)
  time.nowMs += (throttle.blockedSeconds('a') ?? 0) * 1000
  assert.equal(throttle.blockedSeconds('a'), undefined)
})

test('the failures of one caller do not count for another', () => {
  const { throttle, fail } = throttleOf()
  fail('a', 3)
  assert.equal(throttle.blockedSeconds('b'), undefined)
})

test('failures of requests that were under way when the caller was blocked change nothing', () => {
  const { throttle, time, fail } = throttleOf()
  fail('a', 3)
  time.nowMs += 5_000
  fail('a', 5)
  assert.equal(throttle.blockedSeconds('a'), 55)
})

test('a caller dropped to make room for others is refused again after a single failure', () => {
  const { throttle, fail } = throttleOf({ maxBlocked: 1 })
  fail('a', 3)
  fail('b', 3)
  assert.equal(throttle.blockedSeconds('a'), undefined)
  fail('a')
  assert.equal(throttle.blockedSeconds('a'), 60)
})

test('only a token that could have been made up may be a guess', () => {
  for (const [reason, guess] of [
    ['malformed', true],
    ['invalid', true],
    ['expired', false],
    ['revoked', false],
    ['keys_unavailable', false],
  ] as const) {
    assert.equal(mayBeGuess(reason), guess)
  }
})

test('a throttle that takes over from another keeps the same callers away', () => {
  const [first, next] = [throttleOf(), throttleOf()]
  first.fail('a', 3)
  assert.equal(first.throttle.blockedSeconds('a'), 60)
  next.throttle.block(first.throttle.blocked())
  assert.equal(next.throttle.blockedSeconds('a'), 60)
  assert.equal(next.throttle.blockedSeconds('b'), undefined)
})
