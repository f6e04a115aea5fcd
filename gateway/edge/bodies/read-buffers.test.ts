import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type BodyReceiver, boundLargeBuffers, ReadBuffer, trimBuffers } from './read-buffers.ts'

const KIB = 1024
const USUAL_BYTES = 68 * KIB
const LARGE_BYTES = 256 * KIB
const MOST_LARGE = 4

/** Takes pieces, and needs them until `letGo`. */
class Receiver implements BodyReceiver {
  isHolding = false
  readonly pieces: Buffer[] = []
  readonly #holds: boolean

  constructor({ holds }: { holds: boolean }) {
    this.#holds = holds
  }

  data(piece: Buffer): boolean {
    this.pieces.push(piece)
    this.isHolding = this.#holds
    return !this.#holds
  }

  letGo(): void {
    this.isHolding = false
    this.pieces.length = 0
  }
}

/** A connection that receives a large body. */
class Reading {
  readonly buffer = new ReadBuffer('upstreams')
  readonly receiver: Receiver

  constructor(receiver = new Receiver({ holds: false })) {
    this.receiver = receiver
    this.buffer.next()
  }

  /** Fills the buffer, or a part of it. @returns how long the next read may be */
  read(length = this.buffer.bytes.length): number {
    const { bytes } = this.buffer
    this.buffer.pass({ bytes, from: 0, to: length }, this.receiver, 0)
    return this.buffer.next().length
  }

  endBody(): void {
    this.buffer.isBulk = false
    this.buffer.next()
  }
}

describe('the buffer of a connection', () => {
  const open: Reading[] = []
  const begin = (receiver?: Receiver): Reading => {
    const reading = new Reading(receiver)
    open.push(reading)
    return reading
  }
  beforeEach(() => boundLargeBuffers(MOST_LARGE))
  afterEach(() => {
    for (const { buffer, receiver } of open.splice(0)) {
      receiver.letGo()
      buffer.release()
    }
    trimBuffers()
    trimBuffers()
  })

  it('becomes a large one when it was filled several times in a row', () => {
    const reading = begin()
    assert.deepEqual(
      [reading.read(), reading.read(), reading.read()],
      [USUAL_BYTES, LARGE_BYTES, LARGE_BYTES],
    )
    const halting = begin()
    assert.equal(halting.read(), USUAL_BYTES)
    assert.equal(halting.read(30 * KIB), USUAL_BYTES)
    assert.equal(halting.read(), USUAL_BYTES)
  })

  it('is a large one while reads are long, and is given back at the end of the body and of the connection', () => {
    boundLargeBuffers(1)
    const first = begin()
    first.read()
    assert.equal(first.read(), LARGE_BYTES)
    assert.equal(first.read(100 * KIB), LARGE_BYTES)
    const second = begin()
    second.read()
    assert.equal(second.read(), USUAL_BYTES)
    assert.equal(first.read(40 * KIB), USUAL_BYTES)
    assert.equal(second.read(), LARGE_BYTES)
    second.endBody()
    first.read()
    assert.equal(first.read(), LARGE_BYTES)
    first.buffer.release()
    const third = begin()
    third.read()
    assert.equal(third.read(), LARGE_BYTES)
  })

  it('is not used again while a piece of it is needed, whether the connection is open or closed', () => {
    boundLargeBuffers(1)
    const slow = new Receiver({ holds: true })
    const reading = begin(slow)
    for (let i = 0; i < 3; i++) reading.read()
    const needed = new Set(slow.pieces.map(({ buffer }) => buffer))
    assert.equal(needed.size, 3)
    reading.buffer.release()
    const other = begin()
    for (let i = 0; i < 6; i++) {
      other.read()
      assert.ok(!needed.has(other.buffer.bytes.buffer))
      assert.equal(other.buffer.bytes.length, USUAL_BYTES)
    }
    slow.letGo()
    assert.equal(other.read(), LARGE_BYTES)
    assert.ok(needed.has(other.buffer.bytes.buffer))
  })

  it('is a large one for only four of a thousand connections whose clients read a large body slowly', () => {
    const slow = Array.from({ length: 1000 }, () => begin(new Receiver({ holds: true })))
    const buffers = new Set<ArrayBufferLike>()
    for (let i = 0; i < 3; i++) {
      for (const reading of slow) {
        // Each connection is paused with one piece, and goes on when the piece is taken.
        reading.receiver.letGo()
        reading.read()
      }
    }
    for (const { buffer, receiver } of slow) {
      for (const { buffer: bytes } of receiver.pieces) buffers.add(bytes)
      buffers.add(buffer.bytes.buffer)
    }
    const bytes = [...buffers].reduce((sum, { byteLength }) => sum + byteLength, 0)
    const large = [...buffers].filter(({ byteLength }) => byteLength === LARGE_BYTES)
    assert.equal(large.length, MOST_LARGE)
    assert.ok(bytes <= 2 * 1000 * USUAL_BYTES + MOST_LARGE * LARGE_BYTES, `${bytes}`)
  })

  it('is freed when it was not needed between two sweeps', () => {
    const reading = begin()
    for (let i = 0; i < 3; i++) reading.read()
    const { buffer } = reading.buffer.bytes
    reading.endBody()
    trimBuffers()
    assert.equal(buffer.byteLength, LARGE_BYTES)
    trimBuffers()
    assert.equal(buffer.byteLength, 0)
    const next = begin()
    next.read()
    assert.equal(next.read(), LARGE_BYTES)
  })
})
