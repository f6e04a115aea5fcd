import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { NONCE_STEP_MS, Nonces } from './dpop.ts'

const START_MS = 1_800_000_000_000
const SECRET = randomBytes(32)

function noncesAt(time: { nowMs: number }, secret: Uint8Array = SECRET): Nonces {
  return new Nonces(
    () => secret,
    () => time.nowMs,
  )
}

test('a nonce is the same for a minute, and good for one to two minutes after it was given out', () => {
  for (const intoMs of [0, NONCE_STEP_MS - 1]) {
    const time = { nowMs: START_MS + intoMs }
    const nonces = noncesAt(time)
    const given = nonces.current()
    assert.match(given, /^[A-Za-z0-9_-]{43}$/)
    assert.equal(nonces.accepts(given), true)
    time.nowMs = START_MS + NONCE_STEP_MS
    assert.notEqual(nonces.current(), given)
    time.nowMs = START_MS + 2 * NONCE_STEP_MS - 1
    assert.equal(nonces.accepts(given), true)
    time.nowMs++
    assert.equal(nonces.accepts(given), false)
  }
})

test('another process with the same secret accepts a nonce, also when the clock there is a little behind', () => {
  const given = noncesAt({ nowMs: START_MS }).current()
  assert.equal(noncesAt({ nowMs: START_MS - 1 }).accepts(given), true)
  assert.equal(noncesAt({ nowMs: START_MS - NONCE_STEP_MS - 1 }).accepts(given), false)
})

test('nothing else is a nonce', () => {
  const nonces = noncesAt({ nowMs: START_MS })
  const strange = noncesAt({ nowMs: START_MS }, randomBytes(32)).current()
  for (const value of [strange, '', undefined, null, 0, [nonces.current()], `${nonces.current()}=`]) {
    assert.equal(nonces.accepts(value), false)
  }
})

test('a secret that could be guessed is not taken', () => {
  assert.throws(() => noncesAt({ nowMs: START_MS }, randomBytes(31)), /at least 32 bytes/)
})
