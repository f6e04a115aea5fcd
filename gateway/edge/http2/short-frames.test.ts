import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { until } from '../http1/conformance/client.test-support.ts'
import { turns } from '../http1/conformance/wire.test-support.ts'
import { ConnectionGuard } from './connection-guard.ts'
import { frameOf, POST, serveFrames } from './frame-client.test-support.ts'
import { DATA, END_STREAM, ENHANCE_YOUR_CALM } from './frames.ts'

const one = (id: number) => frameOf(DATA, 0, id, 'x')

async function reading(ids: readonly number[]) {
  const served = serveFrames({
    begun: (seen) => {
      seen.body
        ?.on('data', (piece: Buffer) => {
          seen.text += piece.toString('latin1')
          pieces.push(piece.length)
        })
        .on('end', () => {
          seen.whole = true
        })
    },
  })
  const pieces: number[] = []
  const client = served.connect()
  for (const id of ids) client.request(id, POST, 0)
  await until(() => served.seen.length === ids.length)
  return { ...served, client, pieces }
}

describe('DATA of a byte each', () => {
  it('is joined to one piece for each stream in each read, though the streams take turns', async () => {
    const { client, pieces, seen } = await reading([1, 3])
    for (let read = 0; read < 3; read++) {
      client.bytes(Buffer.concat(Array.from({ length: 500 }, (_, at) => one(at % 2 === 0 ? 1 : 3))))
      await turns()
    }
    assert.deepEqual(
      pieces,
      Array.from({ length: 6 }, () => 250),
    )
    for (const id of [1, 3]) client.frame(DATA, END_STREAM, id, 'y')
    await turns()
    assert.deepEqual(
      seen.map(({ text, whole }) => [text, whole]),
      Array.from({ length: 2 }, () => [`${'x'.repeat(750)}y`, true]),
    )
  })

  it('is passed on as it came when it is alone in its read, or long', async () => {
    const { client, pieces } = await reading([1])
    for (const sizes of [[1], [1, 1, 9000, 1], [9000, 9000]]) {
      client.bytes(Buffer.concat(sizes.map((size) => frameOf(DATA, 0, 1, 'x'.repeat(size)))))
      await turns()
    }
    assert.deepEqual(pieces, [1, 2, 9000, 1, 9000, 9000])
  })

  it('makes up the body, however long its frames are, and whenever its reader pauses', async () => {
    const reads = fc.array(
      fc.record({
        sizes: fc.array(fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 6000 })), {
          maxLength: 6,
        }),
        pauses: fc.boolean(),
      }),
      { maxLength: 8 },
    )
    await fc.assert(
      fc.asyncProperty(reads, async (all) => {
        const { client, seen } = await reading([1])
        let sent = ''
        for (const { sizes, pauses } of all) {
          const texts = sizes.map((size, at) =>
            String.fromCharCode(97 + ((sent.length + at) % 26)).repeat(size),
          )
          // The client may send more than is read ahead.
          if (sent.length + texts.join('').length > 60_000) break
          if (pauses) seen[0]?.body?.pause()
          client.bytes(Buffer.concat(texts.map((text) => frameOf(DATA, 0, 1, text))))
          sent += texts.join('')
          await turns(1)
          seen[0]?.body?.resume()
        }
        client.frame(DATA, END_STREAM, 1)
        await until(() => seen[0]?.whole === true)
        assert.equal(seen[0]?.text, sent)
      }),
      { numRuns: 50 },
    )
  })

  it('of half a million frames is a whole body', async () => {
    const { client, seen } = await reading([1])
    const many = Buffer.concat(Array.from({ length: 20_000 }, () => one(1)))
    for (let read = 0; read < 25; read++) {
      client.bytes(many)
      await turns(1)
      await until(() => seen[0]?.text.length === 20_000 * (read + 1))
    }
    client.frame(DATA, END_STREAM, 1)
    await until(() => seen[0]?.whole === true)
    assert.equal(client.wire.destroyed, false)
  })

  it('is too much after a million frames, but 10,000 more are allowed each second', () => {
    let nowMs = 0
    const guard = new ConnectionGuard(() => nowMs)
    const allowed = (bytes: number) => {
      let count = 0
      while (count < 2_000_000 && guard.allowsShort(bytes)) count++
      return count
    }
    assert.deepEqual([allowed(5), allowed(1), allowed(4)], [2_000_000, 1_000_000, 0])
    nowMs += 1000
    assert.equal(allowed(4), 10_000)
  })

  it('ends the connection when it is too much', async () => {
    const { client, time } = await reading([1])
    const many = Buffer.concat(Array.from({ length: 50_000 }, () => one(1)))
    for (let read = 0; read < 21 && !client.wire.writableEnded; read++) {
      client.bytes(many)
      await turns(3)
    }
    assert.equal(time.nowMs, 0)
    assert.equal(await client.goAway(), ENHANCE_YOUR_CALM)
  })
})

describe('in one turn of the loop', () => {
  it('one read of many frames is taken, and others are served before the next', async () => {
    const { client, seen, connect } = await reading([1])
    const other = connect('192.0.2.2')
    await turns()
    const many = Buffer.concat(Array.from({ length: 2000 }, () => one(1)))
    for (let read = 0; read < 10; read++) client.bytes(many)
    other.request(1)
    const lengths: number[] = []
    for (let turn = 0; turn < 12; turn++) {
      if (seen.length === 2 && lengths.length === 0) lengths.push(seen[0]?.text.length ?? 0)
      await turns(1)
    }
    assert.ok((lengths[0] ?? 20_000) <= 4000, `after ${lengths[0]} frames`)
    assert.equal(seen[0]?.text.length, 20_000)
  })

  it('a bounded number of requests begins, on one connection after the other', async () => {
    const { seen, connect } = serveFrames({ begun: () => {} }, { maxConnections: 100_000 })
    const clients = Array.from({ length: 30 }, (_, at) => connect(`192.0.2.${at + 1}`))
    await turns()
    const requests = (client: (typeof clients)[number]) => {
      for (let id = 1; id < 100; id += 2) client.request(id)
    }
    clients.forEach(requests)
    const bystander = connect('198.51.100.1')
    bystander.request(1, POST, 0)
    let turn = 0
    let most = 0
    for (let before = 0; seen.length > before || turn < 3; turn++) {
      before = seen.length
      await turns(1)
      most = Math.max(most, seen.length - before)
    }
    assert.equal(seen.length, 30 * 50 + 1)
    assert.ok(most <= 64, `${most} in one turn`)
    const at = seen.findIndex(({ method }) => method === 'POST')
    assert.ok(at <= 64 + 31, `only the ${at}th of all`)
  })
})
