import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { beforeEach, describe, it } from 'node:test'
import { WriteWatch } from './write-watch.ts'

describe('the watch over what a client takes', () => {
  let nowMs: number
  let wire: { bytesWritten: number; writableLength: number }
  let watch: WriteWatch

  beforeEach(() => {
    nowMs = 0
    wire = { bytesWritten: 0, writableLength: 0 }
    watch = new WriteWatch(wire as unknown as Socket, () => nowMs)
  })

  /** A response is written that the socket does not accept. */
  const stall = (idleMs: number) => {
    wire = Object.assign(wire, { bytesWritten: wire.bytesWritten + 1000, writableLength: 1000 })
    watch.begin(idleMs)
  }
  const drain = () => {
    wire.writableLength = 0
  }
  /** When it says so, looking once a second. */
  const stalledAt = () => {
    while (!watch.isStalled(nowMs) && nowMs < 1_000_000) nowMs += 1000
    return nowMs
  }

  it('gives each response its own time, longer or shorter than that of the one before', () => {
    stall(2000)
    drain()
    nowMs = 500
    stall(300_000)
    assert.ok(stalledAt() >= 300_500)

    nowMs = 0
    drain()
    watch.isStalled(2_000_000)
    stall(300_000)
    drain()
    nowMs = 500
    stall(2000)
    assert.ok(stalledAt() <= 3500)
  })

  it('goes on with the time of a response for the rest of it', () => {
    stall(300_000)
    watch.beginUnlessBegun(2000)
    assert.ok(stalledAt() >= 300_000)
  })

  it('counts from when the client last took something', () => {
    stall(2000)
    nowMs = 1000
    wire.writableLength = 500
    assert.equal(watch.isStalled(nowMs), false)
    watch.begin(2000)
    assert.equal(stalledAt(), 3000)
  })

  it('watches nothing that has been taken', () => {
    stall(2000)
    drain()
    assert.equal(stalledAt(), 1_000_000)
  })
})
