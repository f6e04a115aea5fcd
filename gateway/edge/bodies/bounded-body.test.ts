import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { BoundedBody } from './bounded-body.ts'

class Body extends BoundedBody {
  constructor() {
    super({ read: () => {} })
  }

  /** Gathers short pieces behind others, as bodies do. */
  keep(piece: Buffer): boolean {
    return this.readableLength > 0 && piece.length < 16_384
      ? this.gather(piece, 0, piece.length)
      : this.enter(piece)
  }

  endAll(): void {
    this.enterEnd()
  }

  receive(text: string): void {
    if (this.takes(text.length)) this.push(text)
  }

  complete(): void {
    if (!this.isExceeded) this.push(null)
  }
}

describe('a bounded body', () => {
  it('passes on exactly its bound', async () => {
    const body = new Body()
    assert.equal(
      body.bound(10, () => assert.fail('not exceeded')),
      true,
    )
    body.receive('12345')
    body.receive('67890')
    body.complete()
    assert.equal((await body.toArray()).join(''), '1234567890')
  })

  it('reports once that a byte too many came, passes nothing of its piece on, and never ends', async () => {
    const body = new Body()
    let exceeded = 0
    body.bound(9, () => exceeded++)
    body.receive('12345')
    body.receive('67890')
    body.receive('1')
    body.complete()
    assert.equal(exceeded, 1)
    assert.equal(String(body.read()), '12345')
    body.resume()
    await new Promise(setImmediate)
    assert.equal(body.readableEnded, false)
  })

  it('gathers short pieces that wait, and passes on every byte in its order, however it is read', async () => {
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.integer({ min: 1, max: 3000 }) },
      fc.integer({ min: 1, max: 40_000 }),
      fc.constantFrom('pause', 'resume', 'read', 'read all', 'turn'),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), fc.boolean(), async (steps, isIterated) => {
        const body = new Body()
        const sent: Buffer[] = []
        const got: Buffer[] = []
        const over = isIterated
          ? body.forEach((piece: Buffer) => void got.push(piece))
          : new Promise((resolve) => body.pause().once('end', resolve))
        if (!isIterated) body.on('data', (piece: Buffer) => got.push(piece))
        for (const [i, one] of steps.entries()) {
          if (typeof one === 'number') {
            const piece = Buffer.alloc(one, i)
            sent.push(piece)
            body.keep(piece)
          } else if (one === 'turn') await new Promise(setImmediate)
          else if (isIterated) continue
          else if (one === 'pause') body.pause()
          else if (one === 'resume') body.resume()
          else body.read(one === 'read' ? Math.max(1, body.readableLength >> 1) : undefined)
        }
        body.endAll()
        if (!isIterated) body.resume()
        await over
        assert.ok(Buffer.concat(got).equals(Buffer.concat(sent)))
      }),
      { numRuns: 200 },
    )
  })

  it('holds all that came, in few pieces, when nobody reads it', () => {
    const body = new Body()
    const byte = Buffer.alloc(65_536).subarray(0, 1)
    for (let bytes = 0; bytes < 50_000; bytes++) {
      const more = body.keep(byte)
      assert.equal(more, bytes + 1 < body.readableHighWaterMark)
    }
    const pieces: Buffer[] = []
    body.on('data', (piece: Buffer) => pieces.push(piece))
    for (let piece = body.read(); piece !== null; piece = body.read());
    assert.ok(pieces.length < 10, `${pieces.length} pieces`)
    const held = pieces.slice(1).reduce((sum, { buffer }) => sum + buffer.byteLength, 0)
    assert.ok(held <= 50_000 + 16_384, `${held} bytes`)
  })

  it('says at once that a bound set late is exceeded already', () => {
    const body = new Body()
    body.receive('1234567890')
    assert.equal(
      body.bound(9, () => assert.fail('it is said')),
      false,
    )
    body.receive('1')
  })
})
