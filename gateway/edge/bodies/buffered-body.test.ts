import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { Readable } from 'node:stream'
import { describe, it, type TestContext } from 'node:test'
import fc from 'fast-check'
import { type BufferFault, bodyOf, bufferBody } from './buffered-body.ts'

const MAX = { maxBytes: 10, contentLength: undefined }

function source(...chunks: (string | Buffer)[]): Readable {
  const body = new Readable({ read: () => {} })
  for (const chunk of chunks) body.push(Buffer.from(chunk))
  return body
}

function ended(...chunks: (string | Buffer)[]): Readable {
  const body = source(...chunks)
  body.push(null)
  return body
}

function listeners(body: Readable): number {
  return ['data', 'end', 'close', 'error'].reduce((sum, name) => sum + body.listenerCount(name), 0)
}

async function listening(
  t: TestContext,
  receive: (req: IncomingMessage) => void,
): Promise<{ server: Server; port: number }> {
  const server = createServer((req, res) => {
    receive(req)
    res.flushHeaders()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { server, port: (server.address() as AddressInfo).port }
}

describe('buffering a body', () => {
  it('gives all its bytes, in however many pieces they came', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 40_000 }), { maxLength: 8 }), async (pieces) => {
        const chunks = pieces.map((piece) => Buffer.from(piece))
        const whole = Buffer.concat(chunks)
        const buffered = await bufferBody(ended(...chunks), {
          maxBytes: whole.length,
          contentLength: undefined,
        })
        assert.ok(Buffer.isBuffer(buffered))
        assert.ok(buffered.equals(whole))
      }),
      { numRuns: 50 },
    )
  })

  it('gives an empty buffer for an empty body', async () => {
    assert.deepEqual(await bufferBody(ended(), MAX), Buffer.alloc(0))
  })

  it('takes exactly its bound, and one byte more is too large', async () => {
    assert.equal(String(await bufferBody(ended('12345', '67890'), MAX)), '1234567890')
    assert.equal(await bufferBody(source('12345', '678901'), MAX), 'too_large')
  })

  it('reads nothing of a body that announces too much', async () => {
    const body = source('1234567890')
    assert.equal(await bufferBody(body, { maxBytes: 10, contentLength: 11 }), 'too_large')
    assert.equal(body.readableLength, 10)
    assert.equal(listeners(body), 0)
  })

  it('stops reading beyond its bound, and leaves the rest in the stream', async () => {
    const body = source('12345678901')
    assert.equal(await bufferBody(body, MAX), 'too_large')
    assert.equal(body.isPaused(), true)
    body.push('the rest')
    assert.equal(body.readableLength, 8)
  })

  it('resumes a body that was held back', async () => {
    assert.equal(String(await bufferBody(ended('held').pause(), MAX)), 'held')
  })

  it('leaves no listener behind, whatever the result', async () => {
    const outcomes: [Readable, string | BufferFault][] = [
      [ended('whole'), 'whole'],
      [source('far too large'), 'too_large'],
      [source('half').destroy(), 'broken'],
    ]
    for (const [body, outcome] of outcomes) {
      const before = listeners(body)
      assert.equal(String(await bufferBody(body, MAX)), outcome)
      assert.equal(listeners(body), before)
    }
  })

  it('is broken when the body fails or closes before its end, or has been read or destroyed already', async () => {
    const failing = source('half')
    const failed = bufferBody(failing, MAX)
    failing.destroy(new Error('reset'))
    assert.equal(await failed, 'broken')
    const closing = source('half')
    const closed = bufferBody(closing, MAX)
    closing.destroy()
    assert.equal(await closed, 'broken')
    const read = ended('read').resume()
    await once(read, 'end')
    assert.equal(await bufferBody(read, MAX), 'broken')
    assert.equal(await bufferBody(source('gone').destroy(), MAX), 'broken')
  })

  it('does not keep the buffer of a piece while more may come', async () => {
    for (const contentLength of [undefined, 2]) {
      const body = source('x')
      const buffered = bufferBody(body, { maxBytes: 100, contentLength })
      body.push(Buffer.alloc(65_536).subarray(0, 1))
      body.push(null)
      const { buffer, length } = (await buffered) as Buffer
      assert.ok(length === 2 && buffer.byteLength <= 2048, `${buffer.byteLength}`)
    }
    const whole = Buffer.from('as it is')
    assert.equal(await bufferBody(ended(whole), { maxBytes: 100, contentLength: 8 }).then(String), 'as it is')
  })

  it('holds memory in proportion to the bytes, not to the pieces', async () => {
    const pieces = 20_000
    const buffered = await bufferBody(ended(...Array.from({ length: pieces }, () => 'x')), {
      maxBytes: pieces,
      contentLength: undefined,
    })
    assert.ok(Buffer.isBuffer(buffered))
    assert.ok(buffered.buffer.byteLength <= 2 * pieces)
    assert.equal(buffered.toString(), 'x'.repeat(pieces))
  })
})

describe('buffering the body of a request', () => {
  it('gives the raw bytes, chunked or not, also when they are no text', async (t) => {
    const bodies: Promise<Buffer | BufferFault>[] = []
    const { port } = await listening(t, (req) => {
      bodies.push(bufferBody(req, { maxBytes: 1_048_576, contentLength: undefined }))
    })
    const raw = Buffer.from(Array.from({ length: 100_000 }, (_, index) => index % 256))
    for (const headers of [{ 'Content-Length': raw.length }, { 'Transfer-Encoding': 'chunked' }]) {
      const req = request({ host: '127.0.0.1', port, method: 'POST', headers })
      req.end(raw)
      await once(req, 'response')
      const body = await bodies.pop()
      assert.ok(Buffer.isBuffer(body))
      assert.ok(body.equals(raw))
    }
  })

  it('is broken when the client goes away in the middle, and nothing is thrown', async (t) => {
    const buffering = Promise.withResolvers<Buffer | BufferFault>()
    const { port } = await listening(t, (req) => {
      bufferBody(req, { maxBytes: 100, contentLength: 100 }).then(buffering.resolve, buffering.reject)
    })
    const socket = connect(port, '127.0.0.1')
    socket.write('POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf')
    socket.once('data', () => socket.destroy())
    assert.equal(await buffering.promise, 'broken')
  })
})

describe('a buffered body sent on', () => {
  it('is a stream that holds all its bytes and then ends', async () => {
    const body = bodyOf(Buffer.from('abc'))
    assert.equal(body.readableLength, 3)
    assert.deepEqual(await body.toArray(), [Buffer.from('abc')])
  })

  it('ends at once when it is empty', async () => {
    assert.deepEqual(await bodyOf(Buffer.alloc(0)).toArray(), [])
  })
})
