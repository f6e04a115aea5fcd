import assert from 'node:assert/strict'
import { it } from 'node:test'
import { pair, requestOf, type WireRequest } from '../contract/scripted.test-support.ts'
import type { UpstreamResponse } from '../upstream-client.ts'

const EXCHANGES = 24
/** Connections, each of which is used again when its response is over. */
const CONNECTIONS = 8
const BODY_BYTES = 1_200_000

/** A body in which every four bytes say whose they are and where they stand. */
function bodyOf(id: number): Buffer {
  const body = Buffer.alloc(BODY_BYTES)
  for (let at = 0; at < BODY_BYTES; at += 4) body.writeUInt32BE(id * BODY_BYTES + at, at)
  return body
}

/** Takes some pieces at once and others later, and compares each piece when it takes it. */
class SlowReceiver implements UpstreamResponse {
  readonly over = Promise.withResolvers<void>()
  readonly #body: Buffer
  readonly #slowness: number
  readonly #held: { readonly piece: Buffer; readonly at: number }[] = []
  #received = 0
  #pieces = 0

  constructor(id: number) {
    this.#body = bodyOf(id)
    this.#slowness = 1 + (id % 4)
  }

  get isHolding(): boolean {
    return this.#held.length > 0
  }

  information(): void {}
  head(): void {}
  upgrade(): void {}

  data(piece: Buffer): boolean {
    const at = this.#received
    this.#received += piece.length
    this.#pieces += 1
    if (this.#held.length === 0 && this.#pieces % this.#slowness === 0) this.#compare(piece, at)
    else {
      this.#held.push({ piece, at })
      if (this.#held.length === 1) setTimeout(() => this.#letGo(), this.#slowness)
    }
    return true
  }

  end(): void {
    this.#letGo()
    assert.equal(this.#received, BODY_BYTES)
    this.over.resolve()
  }

  fault({ cause }: { readonly cause: string }): void {
    this.over.reject(new Error(cause))
  }

  #letGo(): void {
    for (const { piece, at } of this.#held.splice(0)) this.#compare(piece, at)
  }

  #compare(piece: Buffer, at: number): void {
    if (!piece.equals(this.#body.subarray(at, at + piece.length))) this.over.reject(new Error('other bytes'))
  }
}

it('large bodies side by side keep their bytes until the receiver has let go of them', async (t) => {
  const onRequest = ({ socket, head }: WireRequest) => {
    const body = bodyOf(Number(/ \/(\d+)/.exec(head)?.[1]))
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${BODY_BYTES}\r\n\r\n`)
    for (let at = 0; at < BODY_BYTES; at += 90_000) socket.write(body.subarray(at, at + 90_000))
  }
  const { upstream } = await pair(t, { onRequest }, { maxConnections: CONNECTIONS })
  const receivers = Array.from({ length: EXCHANGES }, (_, id) => new SlowReceiver(id)).entries()
  const receiveInTurn = async () => {
    for (const [id, receiver] of receivers) {
      upstream.send(requestOf({ target: `/${id}` }), receiver)
      await receiver.over.promise
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, receiveInTurn))
})
