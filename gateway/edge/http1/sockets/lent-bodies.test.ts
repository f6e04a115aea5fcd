import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { LONGER } from '../../../e2e/long-runs.ts'
import type { BodyReceiver } from '../../bodies/read-buffers.ts'
import { until } from '../conformance/client.test-support.ts'
import { respondEmpty, type Seen, scribe, serverOf } from '../conformance/scribe.test-support.ts'
import { turns } from '../conformance/wire.test-support.ts'
import { RequestBody } from '../incoming-body.ts'
import { ClientSocket } from './client-socket.ts'

const OK_BYTES =
  'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\n'.length

/** How one connection uploads, and how its bodies are taken. */
interface Upload {
  readonly bodies: readonly number[]
  readonly chunked: boolean
  /** How much is written at once, and how long the chunks are. */
  readonly pieces: readonly number[]
  /** One of this many pieces is kept for some turns of the event loop. 0: none. */
  readonly keepsOneOf: number
  /** The receiver holds back after so many pieces. 0: never. */
  readonly holdsBackAfter: number
  /** Turns before the body is read. */
  readonly late: number
}

/** More pieces of one byte would take many seconds of CPU and show nothing else. */
const MAX_PIECES = 3000

const ANY_UPLOAD: fc.Arbitrary<Upload> = fc.record({
  bodies: fc.array(fc.integer({ min: 1, max: 600_000 }), { minLength: 1, maxLength: 3 }),
  chunked: fc.boolean(),
  pieces: fc.array(fc.oneof(fc.integer({ min: 1, max: 3000 }), fc.integer({ min: 10_000, max: 200_000 })), {
    minLength: 1,
    maxLength: 4,
  }),
  keepsOneOf: fc.integer({ min: 0, max: 3 }),
  holdsBackAfter: fc.integer({ min: 0, max: 4 }),
  late: fc.integer({ min: 0, max: 3 }),
})
const UPLOAD = ANY_UPLOAD.map((upload) => {
  const maxBytes = Math.max(...upload.pieces) * (MAX_PIECES / upload.pieces.length)
  return { ...upload, bodies: upload.bodies.map((length) => Math.min(length, Math.ceil(maxBytes))) }
})

/** A body in which every four bytes say whose they are and where they stand. */
function contentOf(id: number, length: number): Buffer {
  const body = Buffer.alloc(length + 4)
  for (let at = 0; at < length; at += 4) body.writeUInt32BE((id * 1_000_003 + at) >>> 0, at)
  return body.subarray(0, length)
}

function requestOf(id: number, length: number, { chunked, pieces }: Upload): Buffer {
  const content = contentOf(id, length)
  const head = `POST /${id} HTTP/1.1\r\n${chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${length}`}\r\n\r\n`
  if (!chunked) return Buffer.concat([Buffer.from(head), content])
  const parts = [Buffer.from(head)] as Buffer[]
  for (let at = 0, i = 0; at < length; i++) {
    const size = Math.min(pieces[i % pieces.length] as number, length - at)
    parts.push(Buffer.from(`${size.toString(16)}\r\n`), content.subarray(at, at + size), Buffer.from('\r\n'))
    at += size
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')])
}

/** Keeps pieces for a while, as a socket does that has not written them, and compares each when it lets go of it. */
class Receiver implements BodyReceiver {
  readonly over = Promise.withResolvers<void>()
  readonly #body: RequestBody
  readonly #content: Buffer
  readonly #upload: Upload
  readonly #kept: { readonly piece: Buffer; readonly at: number }[] = []
  #received = 0
  #pieces = 0

  constructor(body: RequestBody, content: Buffer, upload: Upload) {
    this.#body = body
    this.#content = content
    this.#upload = upload
  }

  start(): void {
    this.#body.passTo(this)
    this.#body.on('data', (piece: Buffer) => this.data(piece))
    this.#body.once('end', () => this.#end())
    this.#body.resume()
  }

  get isHolding(): boolean {
    return this.#kept.length > 0
  }

  data(piece: Buffer): boolean {
    const { keepsOneOf, holdsBackAfter } = this.#upload
    const at = this.#received
    this.#received += piece.length
    this.#pieces += 1
    if (keepsOneOf === 0 || this.#pieces % keepsOneOf !== 0) this.#compare(piece, at)
    else {
      this.#kept.push({ piece, at })
      if (this.#kept.length === 1) void turns(1 + (this.#pieces % 3)).then(() => this.#letGo())
    }
    if (holdsBackAfter === 0 || this.#pieces % holdsBackAfter !== 0) return true
    this.#body.pause()
    void turns(1 + (at % 3)).then(() => this.#body.resume())
    return false
  }

  #end(): void {
    this.#letGo()
    if (this.#received === this.#content.length) this.over.resolve()
    else this.over.reject(new Error(`${this.#received} bytes of ${this.#content.length}`))
  }

  #letGo(): void {
    for (const { piece, at } of this.#kept.splice(0)) this.#compare(piece, at)
  }

  #compare(piece: Buffer, at: number): void {
    if (!piece.equals(this.#content.subarray(at, at + piece.length)))
      this.over.reject(new Error(`other bytes in ${piece.length} at ${at}`))
  }
}

/** Reads a request body by a {@link Receiver}. */
async function take(seen: Seen, upload: Upload): Promise<void> {
  const id = Number(seen.target.slice(1))
  const length = upload.bodies[id % 10] as number
  await turns(upload.late)
  assert.ok(seen.body instanceof RequestBody)
  const receiver = new Receiver(seen.body, contentOf(id, length), upload)
  receiver.start()
  await receiver.over.promise
  respondEmpty(seen)
}

/** Sends each request when the request before has its response. */
async function send(port: number, first: number, upload: Upload): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  let received = 0
  socket.on('data', (bytes) => {
    received += bytes.length
  })
  socket.on('error', () => {})
  for (const [i, length] of upload.bodies.entries()) {
    const bytes = requestOf(first + i, length, upload)
    for (let at = 0, n = 0; at < bytes.length; n++) {
      const size = upload.pieces[n % upload.pieces.length] as number
      if (!socket.write(bytes.subarray(at, at + size)))
        await until(() => !socket.writableNeedDrain || socket.destroyed)
      else if (n % 16 === 0) await turns(1)
      at += size
    }
    await until(() => received >= (i + 1) * OK_BYTES || socket.destroyed)
    assert.equal(socket.destroyed, false)
  }
  socket.destroy()
}

describe('the memory of a body', () => {
  it('keeps its bytes until the receiver has let go of them, whatever else comes', async (t) => {
    let uploads: readonly Upload[] = []
    let failure: Error | undefined
    const handler = scribe({
      begun: (seen) => {
        const upload = uploads[Math.floor(Number(seen.target.slice(1)) / 10)] as Upload
        take(seen, upload).catch((error: Error) => {
          failure ??= error
          seen.res.breakOff()
        })
      },
    })
    const http = serverOf(handler)
    const sockets: unknown[] = []
    http.server.on('connection', (socket) => sockets.push(socket))
    http.server.listen(0, '127.0.0.1')
    await once(http.server, 'listening')
    t.after(() => {
      http.closeAllConnections()
      return http.close()
    })
    const { port } = http.server.address() as AddressInfo
    await fc.assert(
      fc.asyncProperty(fc.array(UPLOAD, { minLength: 1, maxLength: 6 }), async (all) => {
        uploads = all
        failure = undefined
        const sent = await Promise.allSettled(all.map((upload, i) => send(port, 10 * i, upload)))
        if (failure !== undefined) throw failure
        for (const one of sent) if (one.status === 'rejected') throw one.reason
      }),
      { numRuns: 40 * LONGER },
    )
    assert.ok(sockets.length > 0 && sockets.every((socket) => socket instanceof ClientSocket))
  })
})
