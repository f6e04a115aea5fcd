import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { bufferBody } from '../../bodies/buffered-body.ts'
import { serving, until } from '../conformance/client.test-support.ts'
import { respondEmpty, type Seen } from '../conformance/scribe.test-support.ts'
import { turns } from '../conformance/wire.test-support.ts'

const MIB = 1024 * 1024
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as NodeJS.GCFunction

/** The bytes of the buffers that are still in memory. */
async function bytesLeft(buffers: ReadonlySet<WeakRef<ArrayBufferLike>>): Promise<number> {
  await turns()
  collect()
  let bytes = 0
  for (const buffer of buffers) bytes += buffer.deref()?.byteLength ?? 0
  return bytes
}

describe('a body of HTTP/1.1', () => {
  it('is not kept when it is read as a stream', async (t) => {
    const buffers = new Set<WeakRef<ArrayBufferLike>>()
    let received = 0
    const { seen, connect } = await serving(t, {
      begun: ({ body }: Seen) => {
        body?.on('data', (piece: Buffer) => {
          buffers.add(new WeakRef(piece.buffer))
          received += piece.length
        })
      },
    })
    const client = await connect()
    client.send(`POST / HTTP/1.1\r\nContent-Length: ${64 * MIB}\r\n\r\n`)
    for (let sent = 0; sent < 64; sent++) {
      client.send('x'.repeat(MIB))
      await until(() => received === (sent + 1) * MIB)
    }
    assert.ok(buffers.size > 64)
    const left = await bytesLeft(buffers)
    assert.ok(left <= 2 * MIB, `${left} bytes are left`)
    respondEmpty(seen[0] as Seen)
  })

  it('that is buffered is in memory once', async (t) => {
    const buffers = new Set<WeakRef<ArrayBufferLike>>()
    let received = 0
    const { seen, connect } = await serving(t, {
      begun: ({ body }: Seen) => {
        if (body === null) return
        body.on('data', (piece: Buffer) => {
          buffers.add(new WeakRef(piece.buffer))
          received += piece.length
        })
        void bufferBody(body, { maxBytes: 8 * MIB, contentLength: undefined })
      },
    })
    const client = await connect()
    client.send('POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n')
    for (let sent = 0; sent < 64; sent++) {
      client.send(`4000\r\n${'x'.repeat(0x4000)}\r\n`)
      await until(() => received === (sent + 1) * 0x4000)
    }
    const left = await bytesLeft(buffers)
    assert.ok(left <= MIB / 2, `${left} bytes are left beside what is buffered`)
    respondEmpty(seen[0] as Seen)
  })

  it('takes memory only for its bytes while nobody reads it, in whatever chunks they come', async (t) => {
    const { seen, connect } = await serving(t, { begun: () => {} })
    const client = await connect()
    client.send('POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n')
    await until(() => seen.length === 1)
    client.send('1\r\nx\r\n'.repeat(20_000))
    await client.read()
    const pieces: Buffer[] = []
    seen[0]?.body?.on('data', (piece: Buffer) => pieces.push(piece))
    await until(() => pieces.reduce((sum, { length }) => sum + length, 0) === 20_000)
    assert.ok(pieces.length < 10, `${pieces.length} pieces`)
    respondEmpty(seen[0] as Seen)
  })
})
