import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Health } from './health.ts'

function healthOf(clock = () => 0, onChange: (healthy: boolean) => void = () => {}): Health {
  return new Health(clock, onChange)
}

/** A whole response. */
function responded(health: Health, status: number): void {
  health.responded(status)
  health.succeeded(status)
}

describe('the health of an upstream', () => {
  it('leaves the upstream alone for 250 ms after a failure, then twice as long each time, up to 10 s', () => {
    let nowMs = 1000
    const health = healthOf(() => nowMs)
    const waits: number[] = []
    for (let i = 0; i < 8; i++) {
      health.chosen()
      health.connectFailed()
      waits.push(health.retryAtMs - nowMs)
      assert.equal(health.usable(), false)
      nowMs = health.retryAtMs - 1
      assert.equal(health.usable(), false)
      nowMs += 1
      assert.equal(health.usable(), true)
    }
    assert.deepEqual(waits, [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000])
  })

  it('counts failures of calls that were under way together as one', () => {
    const health = healthOf()
    for (let i = 0; i < 10; i++) health.connectFailed()
    assert.equal(health.retryAtMs, 250)
  })

  it('lets one call try the upstream after the back-off, and another only a back-off later', () => {
    let nowMs = 0
    const health = healthOf(() => nowMs)
    health.connectFailed()
    nowMs = 250
    assert.equal(health.usable(), true)
    health.chosen()
    assert.equal(health.usable(), false)
    nowMs = 500
    assert.equal(health.usable(), true)
  })

  it('avoids the upstream after three failures in a row, for 1 s, then twice as long each time, up to 10 s', () => {
    let nowMs = 0
    const health = healthOf(() => nowMs)
    for (const status of [503, 200, 502, 504]) responded(health, status)
    assert.equal(health.avoided(), false)
    health.exchangeFailed()
    // Exchanges that were under way together with the last one.
    for (let i = 0; i < 10; i++) responded(health, 503)
    const waits: number[] = []
    for (let i = 0; i < 6; i++) {
      const fromMs = nowMs
      while (health.avoided()) nowMs += 100
      waits.push(nowMs - fromMs)
      health.chosen()
      assert.equal(health.avoided(), true, 'one call finds out')
      responded(health, 503)
    }
    assert.deepEqual(waits, [1000, 2000, 4000, 8000, 10_000, 10_000])
    assert.equal(health.usable(), true)
    responded(health, 200)
    assert.equal(health.avoided(), false)
  })

  it('counts each attempt by its outcome, and one that broke off after a 5xx as a 5xx', () => {
    const health = healthOf()
    for (const status of [101, 200, 404, 500, 503]) responded(health, status)
    health.responded(502)
    health.brokeOff(502)
    health.brokeOff(200)
    health.brokeOff(0)
    assert.deepEqual(health.attempts, { answered: 3, '5xx': 3, failed: 2 })
  })

  it('reports changes only, and begins with the shortest back-off again after a success', () => {
    const changes: boolean[] = []
    const health = healthOf(undefined, (healthy) => changes.push(healthy))
    health.connected()
    health.connectFailed()
    health.chosen()
    health.connectFailed()
    assert.equal(health.retryAtMs, 500)
    health.connected()
    health.connected()
    assert.equal(health.usable(), true)
    health.connectFailed()
    assert.equal(health.retryAtMs, 250)
    assert.deepEqual(changes, [false, true, false])
  })
})
