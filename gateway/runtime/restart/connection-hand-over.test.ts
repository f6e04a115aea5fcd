import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { describe, it, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectSecure, type TLSSocket } from 'node:tls'
import { until } from '../../edge/http1/conformance/client.test-support.ts'
import {
  connectionsOf,
  respondEmpty,
  type Seen,
  scribe,
} from '../../edge/http1/conformance/scribe.test-support.ts'
import { createHttpServer, createSecureHttpServer } from '../../edge/http1/http-server.ts'
import { blockOf, frameOf, GET as HTTP2_GET } from '../../edge/http2/frame-client.test-support.ts'
import { END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS } from '../../edge/http2/frames.ts'
import { http2 } from '../../edge/http2/http2-connection.ts'
import { makeAuthority } from '../../tls/demo/throw-away-ca.ts'
import type { GatewayInForce } from '../gateway-in-force.ts'
import type { PublicListeners } from '../public-listeners.ts'
import { ConnectionHandOver } from './connection-hand-over.ts'
import { adoptConnection, type PassedConnection } from './sockets.ts'

const GET = 'GET / HTTP/1.1\r\n\r\n'
const ENDLESS = 'GET /endless HTTP/1.1\r\n\r\n'
const HELD = 'GET /held HTTP/1.1\r\n\r\n'
/** Fewer bytes than a socket buffers. */
const PIECE = Buffer.alloc(16 * 1024)
const LOOK_MS = 20
/** A socket that still holds the same piece after so many looks takes nothing. */
const LOOKS = 15

const NEVER = new Promise(() => {})

const certificate = await makeAuthority({ subject: 'CN=localhost' })

/** Responds with so much that its client, which reads nothing, leaves a part of the last piece in our queue. */
async function overfill({ res }: Seen): Promise<void> {
  res.writeHead({ status: 200, lines: '', contentLength: undefined, dated: true })
  for (let looks = 0; looks < LOOKS; looks++) {
    if (!res.isHolding) {
      looks = 0
      res.write(PIECE)
    }
    await sleep(res.isHolding ? LOOK_MS : 0)
  }
  res.end()
}

/** A gateway that is handed over while it has clients. */
async function serving(t: TestContext, secure: boolean, drainMs: number) {
  const filled = Promise.withResolvers<void>()
  const held = Promise.withResolvers<readonly [Seen, Socket]>()
  let onBegun: () => unknown = () => {}
  const handler = scribe({
    begun: (one) => {
      onBegun()
      if (one.target === '/endless') void overfill(one).then(filled.resolve, filled.reject)
      else if (one.target !== '/held') respondEmpty(one)
    },
  })
  const connections = connectionsOf(
    {
      ...handler,
      begin: (received, fault) => {
        const seen = handler.begin(received, fault)
        if (seen.target === '/held') held.resolve([seen, received.req.socket])
        return seen
      },
    },
    { http2, isPlainHttp2: true },
  )
  const http = secure
    ? createSecureHttpServer(connections, { cert: certificate.certPem, key: certificate.keyPem })
    : createHttpServer(connections)
  http.server.listen(0, '127.0.0.1')
  await once(http.server, 'listening')
  const { port } = http.server.address() as AddressInfo
  const opened: Socket[] = []
  t.after(() => {
    for (const socket of opened) socket.destroy()
    connections.closeAll()
    http.server.close()
  })
  const load = {
    inFlight: { size: 0, visitAll: () => {} },
    orphans: new Set(),
    tunnels: { size: 0, endAll: () => {} },
  }
  const closed: string[] = []
  const gateway = {
    settings: { timeouts: { drainMs } },
    load,
    log: { warn: () => {} },
    upstreams: { close: async () => void closed.push('upstreams') },
    tracer: { close: async () => void closed.push('spans') },
  }
  const inForce = { gateway, stopKeys: () => {} } as unknown as GatewayInForce
  const open = { connections, stopAccepting: () => http.server.close() } as unknown as PublicListeners
  const passed: Socket[] = []
  // In another process the handle would be new, and its reading would not have begun.
  const adopt = (connection: PassedConnection) => {
    Object.assign(connection.socket, { reading: false })
    passed.push(adoptConnection(connection))
  }
  const successor = { pass: adopt }
  return {
    seen: handler.seen,
    onBegun: (run: () => unknown) => {
      onBegun = run
    },
    filled: filled.promise,
    held: held.promise,
    successor,
    passed,
    closed,
    handOver: new ConnectionHandOver(inForce, open),
    async openRaw() {
      const raw = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
      opened.push(raw.on('error', () => {}))
      await once(raw, 'connect')
      return raw
    },
    async open() {
      const raw = await this.openRaw()
      return secure ? secured(raw) : raw
    },
  }
}

async function secured(socket: Socket): Promise<TLSSocket> {
  const options = { socket, rejectUnauthorized: false, allowHalfOpen: true }
  const client = connectSecure(options).on('error', () => {})
  await once(client, 'secureConnect')
  return client
}

async function received(client: Socket, text: string): Promise<void> {
  let all = ''
  client.on('data', (bytes) => {
    all += bytes
  })
  await until(() => all.includes(text))
}

describe('a process that leaves', () => {
  it('sends the spans that wait, after those of its last requests', async (t) => {
    const { handOver, successor, closed } = await serving(t, false, 60_000)
    await handOver.suspend()
    await handOver.leave(successor, NEVER)
    assert.deepEqual(closed, ['upstreams', 'spans'])
  })
})

test('a process gives its files away once all requests that it received by HTTP/2 have begun', async (t) => {
  const context = await serving(t, false, 1)
  const client = await context.open()
  const requests = Array.from({ length: 30 }, (_, at) =>
    frameOf(HEADERS, END_STREAM | END_HEADERS, 2 * at + 1, blockOf(HTTP2_GET)),
  )
  const { promise, resolve } = Promise.withResolvers<number>()
  context.onBegun(async () => {
    context.onBegun(() => {})
    await context.handOver.suspend()
    resolve(context.seen.length)
  })
  client.write(Buffer.concat([Buffer.from(PREFACE), frameOf(SETTINGS, 0, 0), ...requests]))
  assert.equal(await promise, requests.length)
})

describe('a process whose time to leave is over', () => {
  for (const secure of [false, true]) {
    it(`waits for no client that takes nothing of its last response, ${secure ? 'with' : 'without'} TLS`, async (t) => {
      const context = await serving(t, secure, 1)
      const client = await context.open()
      client.pause()
      client.write(ENDLESS)
      await context.filled
      await context.handOver.suspend()
      await context.handOver.leave(context.successor, NEVER)
    })
  }

  it('closes a connection whose TLS handshake ends after that time', async (t) => {
    const context = await serving(t, true, 1)
    const idle = await context.open()
    idle.write(GET)
    await received(idle, '200 OK')
    const late = await context.openRaw()
    await context.handOver.suspend()
    const left = context.handOver.leave(context.successor, NEVER)
    await once(idle, 'end')
    await secured(late).catch(() => {})
    await left
  })
})

describe('a process that leaves', () => {
  for (const secure of [false, true]) {
    it(`passes on the next request of a client that has closed its half, ${secure ? 'with' : 'without'} TLS`, async (t) => {
      const context = await serving(t, secure, 60_000)
      const client = await context.open()
      client.write(HELD + GET)
      const [{ res }, served] = await context.held
      const suspended = Promise.withResolvers<void>()
      served.once('end', () => {
        // Writes at once: otherwise the server would believe that the client is gone.
        res.writeHead({ status: 200, lines: '', contentLength: 2, dated: true })
        res.write(Buffer.from('a'))
        suspended.resolve(context.handOver.suspend().then(() => {}))
        res.write(Buffer.from('b'))
        res.end()
      })
      client.end()
      await suspended.promise
      const left = context.handOver.leave(context.successor, NEVER)
      await received(client, 'ab')
      await until(() => context.passed.length === 1)
      const next = context.passed[0] as Socket
      const ended = once(next, 'end')
      await received(next, GET)
      await ended
      next.write('response')
      await received(client, 'response')
      served.destroy()
      await left
    })
  }
})
