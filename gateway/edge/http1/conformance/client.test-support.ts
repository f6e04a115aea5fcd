import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { ClientTimeouts } from '../connection-deadline.ts'
import type { HttpServer } from '../http-server.ts'
import { type Acts, type Seen, scribe, serverOf } from './scribe.test-support.ts'
import { turns } from './wire.test-support.ts'

export const GET = 'GET / HTTP/1.1\r\n\r\n'

/** Waits for something that other events bring about. */
export async function until(holds: () => boolean, what = String(holds)): Promise<void> {
  const endMs = performance.now() + 60_000
  while (!holds()) {
    assert.ok(performance.now() < endMs, `never: ${what}`)
    // Turns alone would keep a core busy until a timer of the server fires.
    await pause(1)
    await turns(1)
  }
}

/** A client on a real socket. */
export interface Client {
  readonly socket: Socket
  /** The server's end of the connection. */
  readonly served: Socket
  /** All that has been received. */
  text(): string
  send(text: string): void
  /** Waits until the server has read all that was sent. */
  read(): Promise<void>
  /** Waits until the server has lost the connection. */
  gone(): Promise<void>
  /** The end of the connection: all that was received, and whether it ended with a reset. */
  over(): Promise<{ text: string; reset: boolean }>
}

export interface Serving {
  readonly seen: readonly Seen[]
  /** Numbers of requests that were never begun, as reported to `abandoned`. */
  readonly left: readonly number[]
  readonly http: HttpServer
  /** Time of the server, set by the test. */
  readonly time: { nowMs: number }
  connect(): Promise<Client>
  /** Waits until a sweep has looked at every connection at the present time. */
  swept(): Promise<void>
}

/** A server that listens, until the test is over. */
export async function serving(
  t: TestContext,
  acts: Acts = {},
  timeouts?: Partial<ClientTimeouts>,
): Promise<Serving> {
  const handler = scribe(acts)
  const time = { nowMs: 0 }
  let asked = 0
  const clock = () => {
    asked += 1
    return time.nowMs
  }
  const http = serverOf(handler, clock, timeouts)
  const clients: Client[] = []
  t.after(async () => {
    for (const { socket, served } of clients) {
      socket.destroy()
      served.destroy()
    }
    await http.close()
    await turns()
    for (const { closes } of handler.seen) assert.equal(closes, 1)
  })
  http.server.listen(0, '127.0.0.1')
  await once(http.server, 'listening')
  const { port } = http.server.address() as AddressInfo
  return {
    seen: handler.seen,
    left: handler.left,
    http,
    time,
    async connect() {
      const accepted = once(http.server, 'connection')
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
      const [served] = (await accepted) as [Socket]
      const client = clientOf(socket, served)
      clients.push(client)
      return client
    },
    async swept() {
      // The first sweep may have been under way when the time was set.
      const from = asked
      await until(() => asked >= from + 2)
    },
  }
}

function clientOf(socket: Socket, served: Socket): Client {
  let text = ''
  let reset = false
  let sent = 0
  socket.on('data', (piece) => {
    text += piece.toString('latin1')
  })
  socket.on('error', (error: NodeJS.ErrnoException) => {
    reset = error.code === 'ECONNRESET' || error.code === 'EPIPE'
  })
  return {
    socket,
    served,
    text: () => text,
    send(bytes) {
      sent += bytes.length
      socket.write(bytes, 'latin1')
    },
    read: () => until(() => served.bytesRead === sent, 'all has been read'),
    async gone() {
      await until(() => served.closed, 'the server loses the connection')
      await turns(1)
    },
    async over() {
      await until(() => socket.readableEnded || socket.closed, 'the connection ends')
      return { text, reset }
    },
  }
}
