import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import {
  DATA,
  END_STREAM,
  frameOfNumbers,
  GOAWAY,
  HEADERS,
  REFUSED_STREAM,
  RST_STREAM,
  SETTINGS_MAX_CONCURRENT_STREAMS,
  settingsFrame,
  WINDOW_UPDATE,
} from '../../edge/http2/frames.ts'
import { Field } from '../../edge/syntax/field.ts'
import { makeAuthority, makeCertificate, SERVER_AUTH } from '../../tls/demo/throw-away-ca.ts'
import { Health } from '../balancing/health.ts'
import { bodyOf, FRAGILE, send, until, upstreamsTo } from '../contract/scripted.test-support.ts'
import { HealthCheck } from '../health-check.ts'
import { data, type FramedConnection, head, pair, type Script } from './framed.test-support.ts'

const answer: Script = ({ write }, id) => write(head(id, [':status', '200']), data(id, 'ok', END_STREAM))
const never: Script = () => {}
const refuse: Script = ({ write }, id) => write(frameOfNumbers(RST_STREAM, id, REFUSED_STREAM))
/** Sends a GOAWAY that says that no stream was looked at. */
const goAway: Script = ({ write }) => write(frameOfNumbers(GOAWAY, 0, 0, 0))
const settingsOf = (streams: number) => settingsFrame([[SETTINGS_MAX_CONCURRENT_STREAMS, streams]])

/** Bodies that are there when they are sent, short and long, and one that comes in pieces. */
function bodies() {
  const whole = [3, 40_000].map((length) => {
    const body = new Readable({ read() {} })
    body.push('x'.repeat(length))
    body.push(null)
    return { body, headers: ['host', 'a', 'content-length', String(length)] }
  })
  const pieces = new Readable({ read() {} })
  pieces.push('half')
  return [...whole, { body: pieces, headers: ['host', 'a'] }]
}
/** What an upstream takes of a connection, and of a stream, when it says nothing else (RFC 9113 section 6.9.2). */
const WINDOW_BYTES = 65_535
const headsOf = ({ frames }: FramedConnection) => frames.filter(({ type }) => type === HEADERS)
const resets = (connection: FramedConnection | undefined) =>
  connection?.frames
    .filter(({ type }) => type === RST_STREAM)
    .map(({ payload }) => payload.readUInt32BE(0)) ?? []

describe('sessions with an upstream', () => {
  it('carry many exchanges side by side on one connection', async (t) => {
    const held: (() => void)[] = []
    const { framed, upstream } = await pair(t, (connection, id) => held.push(() => answer(connection, id)))
    const calls = Array.from({ length: 20 }, () => send(upstream))
    await until(() => held.length === 20)
    for (const release of held.toReversed()) release()
    for (const { over } of calls) assert.equal(bodyOf(await over), 'ok')
    assert.equal(framed.connections.length, 1)
  })

  it('have as many streams as the upstream allows, then further sessions open, up to the maximum', async (t) => {
    const held: (() => void)[] = []
    const script: Script = (connection, id) => held.push(() => answer(connection, id))
    const { framed, upstream } = await pair(t, script, { maxConnections: 2 }, settingsOf(2))
    const calls = Array.from({ length: 5 }, () => send(upstream))
    await until(() => held.length === 4)
    assert.deepEqual(
      framed.connections.map((each) => headsOf(each).length),
      [2, 2],
    )
    const faults = await Promise.race(calls.map(({ over }) => over))
    assert.equal(faults.fault?.kind, 'unreachable')
    for (const release of held) release()
    const all = await Promise.all(calls.map(({ over }) => over))
    assert.equal(all.filter(({ ended }) => ended).length, 4)
  })

  it('are enough for a burst that begins before the upstream has said how many streams it takes', async (t) => {
    const held: (() => void)[] = []
    const script: Script = (connection, id) => held.push(() => answer(connection, id))
    const { framed, upstream } = await pair(t, script, { maxConnections: 100 }, settingsOf(5))
    const calls = Array.from({ length: 60 }, () => send(upstream))
    const faults: unknown[] = []
    for (const { over } of calls) void over.then(({ fault }) => fault && faults.push(fault))
    await until(() => held.length + faults.length === 60)
    for (const release of held) release()
    await Promise.all(calls.map(({ over }) => over))
    assert.deepEqual(faults, [])
    assert.deepEqual(
      framed.connections.map((each) => headsOf(each).length),
      Array.from({ length: 12 }, () => 5),
    )
  })

  it('are not opened again and again for an upstream that allows no streams', async (t) => {
    const { framed, upstream } = await pair(t, answer, {}, settingsOf(0))
    assert.equal((await send(upstream).over).fault?.kind, 'unreachable')
    assert.equal(framed.connections.length, 3)
  })

  it('survive a head that Node does not take', async (t) => {
    const { framed, upstream } = await pair(t, answer)
    const path = 'not a pseudo-field'
    const [bad, good] = [send(upstream, { headers: ['host', 'a', ':odd', path] }), send(upstream)]
    assert.equal((await bad.over).fault?.kind, 'unreachable')
    assert.equal(bodyOf(await good.over), 'ok')
    assert.equal(framed.connections.length, 1)
  })

  it('give way to a new session before their stream ids are used up', async (t) => {
    const http2 = process.getBuiltinModule('node:http2')
    const { connect } = http2
    const lastId = 2 ** 31 - 1
    t.mock.method(http2, 'connect', (...args: Parameters<typeof connect>) => {
      const session = connect(...args)
      // The types do not know this method.
      const { setNextStreamID } = session as object as { setNextStreamID(id: number): void }
      session.once('connect', () => setNextStreamID.call(session, lastId))
      return session
    })
    const { framed, upstream } = await pair(t, answer)
    for (let i = 0; i < 2; i++) assert.equal(bodyOf(await send(upstream, { method: 'POST' }).over), 'ok')
    assert.deepEqual(
      framed.connections.map((each) => headsOf(each).map(({ id }) => id)),
      [[lastId], [lastId]],
    )
  })

  it('end with GOAWAY: requests that the upstream has not looked at are sent again, the others end there', async (t) => {
    const { framed, upstream } = await pair(t, (connection, id) => {
      if (connection.number > 1) answer(connection, id)
      else if (id === 3) {
        connection.write(frameOfNumbers(GOAWAY, 0, 1, 0))
        answer(connection, 1)
      }
    })
    const calls = [send(upstream, { method: 'POST' }), send(upstream, { method: 'POST' })]
    for (const { over } of calls) assert.equal(bodyOf(await over), 'ok')
    assert.deepEqual(
      framed.connections.map((each) => headsOf(each).length),
      [2, 1],
    )
  })

  it('send a refused stream again once, when it has no body', async (t) => {
    const once = await pair(t, (connection, id) => (connection.number > 1 ? answer : refuse)(connection, id))
    assert.equal(bodyOf(await send(once.upstream, { method: 'POST' }).over), 'ok')
    assert.equal(once.framed.connections.length, 2)
    const always = await pair(t, refuse)
    assert.equal((await send(always.upstream).over).fault?.kind, 'broken')
    assert.equal(always.framed.connections.length, 2)
  })

  for (const isDuplex of [false, true]) {
    for (const [what, disown] of Object.entries({ 'a reset': refuse, 'a GOAWAY': goAway })) {
      it(`never send ${isDuplex ? 'a call' : 'a request'} again after ${what} once some of its body was sent`, async (t) => {
        for (const { body, headers } of bodies()) {
          const { framed, upstream } = await pair(t, (connection, id) => {
            if (connection.number > 1) answer(connection, id)
          })
          const sent = send(upstream, { method: 'POST', body, headers, isDuplex })
          await until(() => framed.connections[0]?.frames.some(({ type }) => type === DATA) === true)
          disown(framed.connections[0] as FramedConnection, 1)
          assert.equal((await sent.over).fault?.kind, 'broken')
          assert.equal(framed.connections.length, 1)
        }
      })
    }
  }

  it('cancel the stream of an exchange that is given up, and serve the others', async (t) => {
    const { framed, upstream } = await pair(t, (connection, id) => {
      if (id === 1) connection.write(head(id, [':status', '200']), data(id, 'begun'))
      else answer(connection, id)
    })
    const { call, received } = send(upstream)
    await until(() => received.chunks.length === 1)
    call.abort()
    assert.equal(bodyOf(await send(upstream).over), 'ok')
    assert.deepEqual([resets(framed.connections[0]), framed.connections.length], [[8], 1])
  })

  it('never end a body that broke off as if it were whole', async (t) => {
    for (const how of ['broken off', 'too short', 'given up']) {
      const length = how === 'too short' ? ['content-length', '9'] : []
      const { framed, upstream } = await pair(t, never)
      const body = new Readable({ read() {} })
      const sent = send(upstream, { method: 'POST', body, headers: ['host', 'a', ...length] })
      body.push('part')
      await until(() => framed.connections[0]?.frames.some(({ type }) => type === DATA) === true)
      if (how === 'broken off') body.destroy()
      else if (how === 'too short') body.push(null)
      else sent.call.abort()
      if (how !== 'given up') assert.equal((await sent.over).fault?.kind, 'broken')
      await until(() => resets(framed.connections[0]).length === 1)
      const sentData = framed.connections[0]?.frames.filter(({ type }) => type === DATA) ?? []
      assert.deepEqual(
        [sentData.some(({ flags }) => flags !== 0), resets(framed.connections[0])],
        [false, [8]],
      )
    }
  })

  it('send the trailers of a request behind its body', async (t) => {
    const { framed, upstream } = await pair(t, never)
    const body = new Readable({ read() {} })
    send(upstream, { method: 'POST', body, trailers: () => [new Field('X-Sum', '9')] })
    body.push('all')
    body.push(null)
    await until(() => framed.connections[0] !== undefined && headsOf(framed.connections[0]).length === 2)
    const last = framed.connections[0]?.frames.at(-1)
    assert.equal((last?.flags ?? 0) & END_STREAM, END_STREAM)
  })

  it('read no more of a body than the upstream takes, and no more of a response than its receiver takes', async (t) => {
    const { framed, upstream } = await pair(t, ({ write }, id) => {
      write(head(id, [':status', '200']))
      for (let i = 0; i < 15; i++) write(data(id, 'x'.repeat(16_000)))
    })
    let pulled = 0
    const body = new Readable({
      read() {
        pulled += 1
        this.push(Buffer.alloc(16_000))
      },
    })
    const sent = send(upstream, { method: 'POST', body }, () => false)
    await until(() => sent.received.chunks.length === 1)
    const taken = () => framed.connections[0]?.frames.filter(({ type }) => type === DATA).length ?? 0
    await until(() => taken() >= 4)
    // The window of 64 KiB is used up, and some more waits in buffers.
    assert.ok(pulled < 100, `${pulled} pieces`)
    assert.equal(sent.received.chunks.length, 1)
    sent.call.resume()
    await until(() => sent.received.chunks.length === 2)
    sent.call.abort()
  })
})

describe('time', () => {
  const clocked = () => {
    const time = { nowMs: 1000 }
    return { time, clock: () => time.nowMs }
  }

  it('is up when no SETTINGS, no head, no piece or no end comes', async (t) => {
    const silent = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    t.after(() => silent.close())
    const { port } = silent.address() as { port: number }
    const unsettled = upstreamsTo([`h2c://127.0.0.1:${port}`], { connectMs: 100 })
    let { fault } = await send(unsettled).over
    // On a busy machine the connection itself may take as long.
    while (/no connection/.test(fault?.cause ?? '')) fault = (await send(unsettled).over).fault
    assert.deepEqual([fault?.kind, /SETTINGS/.test(fault?.cause ?? '')], ['timeout', true])
    await unsettled.close()

    const { time, clock } = clocked()
    const { framed, upstream } = await pair(t, never, { clock })
    const headless = send(upstream)
    await until(() => framed.connections[0] !== undefined && headsOf(framed.connections[0]).length === 1)
    time.nowMs += 20_000
    assert.equal((await headless.over).fault?.kind, 'timeout')

    const begun = await pair(t, ({ write }, id) => write(head(id, [':status', '200']), data(id, 'a')), {
      clock,
    })
    const silentLater = send(begun.upstream, { idleMs: 1000 })
    await until(() => silentLater.received.chunks.length === 1)
    time.nowMs += 1000
    assert.equal((await silentLater.over).fault?.kind, 'timeout')
    const endless = send(begun.upstream, { totalMs: 5000 })
    await until(() => endless.received.chunks.length === 1)
    time.nowMs += 5000
    assert.equal((await endless.over).fault?.kind, 'timeout')
  })

  it('for a body begins anew when the upstream takes some of it', async (t) => {
    const { time, clock } = clocked()
    const { framed, upstream } = await pair(t, never, { clock })
    const body = new Readable({
      read() {
        this.push(Buffer.alloc(16_000))
      },
    })
    const sent = send(upstream, { method: 'POST', body, idleMs: 10_000, totalMs: undefined })
    const takenBytes = () =>
      framed.connections[0]?.frames
        .filter(({ type }) => type === DATA)
        .reduce((sum, { payload }) => sum + payload.length, 0)
    await until(() => takenBytes() === WINDOW_BYTES)
    time.nowMs += 9000
    framed.connections[0]?.write(
      frameOfNumbers(WINDOW_UPDATE, 0, WINDOW_BYTES),
      frameOfNumbers(WINDOW_UPDATE, 1, WINDOW_BYTES),
    )
    await until(() => takenBytes() === 2 * WINDOW_BYTES)
    time.nowMs += 9999
    await send(upstream, { totalMs: 0 }).over
    assert.equal(sent.received.fault, undefined)
    time.nowMs += 10_000
    assert.deepEqual((await sent.over).fault, {
      kind: 'timeout',
      cause: 'nothing of the request body was taken within 10000 ms',
    })
  })

  it('between pieces does not run out by an upload that ends while the receiver holds the response back', async (t) => {
    const { time, clock } = clocked()
    const { upstream } = await pair(
      t,
      ({ write }, id) => write(head(id, [':status', '200']), data(id, 'abc')),
      { clock },
    )
    const body = new Readable({ read() {} })
    const sent = send(upstream, { method: 'POST', body, idleMs: 10_000, totalMs: undefined }, () => false)
    body.push('abc')
    await until(() => sent.received.chunks.length === 1)
    body.push(null)
    await until(() => body.readableEnded)
    time.nowMs += 100_000
    await send(upstream, { totalMs: 0 }).over
    assert.equal(sent.received.fault, undefined)
    sent.call.abort()
  })

  it('behind an early head is up for the side that must act: the sender of the upload, or the upstream', async (t) => {
    for (const isTaken of [true, false]) {
      const { time, clock } = clocked()
      const opened: string[] = []
      const { framed, upstream } = await pair(
        t,
        ({ write }, id) => write(head(id, [':status', '200']), data(id, 'abc')),
        {
          clock,
          policy: { breaker: FRAGILE, retry: undefined, slowStartMs: 0 },
          onBreaker: (_, state) => opened.push(state),
        },
      )
      let takes = isTaken ? 1 : Number.POSITIVE_INFINITY
      const body = new Readable({ read() {} })
      body._read = () => {
        if (takes-- > 0) body.push(Buffer.alloc(16_000))
      }
      const sent = send(upstream, { method: 'POST', body, idleMs: 10_000, totalMs: undefined })
      const takenBytes = () =>
        framed.connections[0]?.frames
          .filter(({ type }) => type === DATA)
          .reduce((sum, { payload }) => sum + payload.length, 0)
      await until(() => sent.received.chunks.length === 1)
      await until(() => takenBytes() === (isTaken ? 16_000 : WINDOW_BYTES))
      await until(() => {
        time.nowMs += 1000
        return sent.received.fault !== undefined
      })
      assert.deepEqual([sent.received.fault?.kind, opened], isTaken ? ['unsent', []] : ['timeout', ['open']])
    }
  })

  it('of a call is up only when neither side has sent anything', async (t) => {
    const { time, clock } = clocked()
    const { framed, upstream } = await pair(t, never, { clock })
    const body = new Readable({ read() {} })
    const sent = send(upstream, { method: 'POST', body, idleMs: 50_000, totalMs: undefined, isDuplex: true })
    const dataCount = () => framed.connections[0]?.frames.filter(({ type }) => type === DATA).length ?? 0
    await until(() => framed.connections[0] !== undefined && headsOf(framed.connections[0]).length === 1)
    for (let count = 1; count <= 3; count++) {
      // Longer than the time for a head, and all together longer than `idleMs`.
      time.nowMs += 40_000
      body.push('more')
      await until(() => dataCount() === count)
    }
    framed.connections[0]?.write(head(1, [':status', '200']))
    await until(() => sent.received.status === 200)
    time.nowMs += 50_000
    const { fault } = await sent.over
    assert.deepEqual([fault?.kind, fault?.cause], ['unsent', 'neither side sent anything within 50000 ms'])
  })
})

describe('an upstream that does not speak HTTP/2', () => {
  it('is not reached, and asked nothing', async (t) => {
    const received: string[] = []
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.on('data', (bytes) => {
        received.push(bytes.toString('latin1'))
        socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')
      })
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.after(() => server.close())
    const health: boolean[] = []
    const { port } = server.address() as { port: number }
    const upstream = upstreamsTo([`h2c://127.0.0.1:${port}`], {
      onHealth: (_, healthy) => health.push(healthy),
    })
    assert.equal((await send(upstream).over).fault?.kind, 'unreachable')
    await upstream.close()
    assert.equal(received.join('').includes('service.test'), false)
    assert.deepEqual(health, [false])
  })

  it('is not reached over TLS without h2 in ALPN, or with a certificate that is not trusted', async () => {
    const ca = await makeAuthority({ subject: 'CN=Root,O=Test' })
    const san = [{ type: 'ip', value: '127.0.0.1' }] as const
    const wish = { subject: 'CN=localhost', issuer: ca, san, extendedKeyUsages: [SERVER_AUTH] }
    const { certPem, keyPem } = await makeCertificate(wish)
    const causeWith = async (ALPNProtocols: string[] | undefined, trusted: string | undefined) => {
      const options = { cert: certPem, key: keyPem, ...(ALPNProtocols && { ALPNProtocols }) }
      const server = createTlsServer(options, (socket) => socket.on('error', () => {}))
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      const tls = {
        ca: trusted,
        cert: undefined,
        key: undefined,
        serverName: undefined,
        minVersion: 'TLSv1.2',
        maxVersion: 'TLSv1.3',
      } as const
      const { port } = server.address() as { port: number }
      const upstream = upstreamsTo([`h2://127.0.0.1:${port}`], { tls })
      const { fault } = await send(upstream).over
      await upstream.close()
      server.close()
      return `${fault?.kind}: ${fault?.cause}`
    }
    assert.match(await causeWith(undefined, ca.certPem), /^unreachable: .*does not offer h2 by ALPN/)
    assert.match(await causeWith(['http/1.1'], ca.certPem), /^unreachable/)
    assert.match(
      await causeWith(['h2'], undefined),
      /^unreachable: .*(?:self-signed|issuer|verify the first)/,
    )
  })
})

describe('a client of HTTP/2 upstreams', () => {
  it('closes idle sessions at once, and other sessions when their last exchange ends', async (t) => {
    const held: (() => void)[] = []
    const { framed, upstream } = await pair(t, (connection, id) => held.push(() => answer(connection, id)))
    const sent = send(upstream)
    await until(() => held.length === 1)
    let closed = false
    const closing = upstream.close().then(() => {
      closed = true
    })
    assert.equal((await send(upstream).over).fault?.kind, 'unreachable')
    assert.equal(closed, false)
    held[0]?.()
    assert.equal(bodyOf(await sent.over), 'ok')
    await closing
    assert.equal(framed.connections.length, 1)
  })

  it('closes a session whose upstream hangs and never ends its side', async (t) => {
    const { framed, upstream } = await pair(t, answer)
    assert.equal(bodyOf(await send(upstream).over), 'ok')
    // What comes from now on, the end of the connection too, is not seen.
    framed.connections[0]?.socket.pause()
    await upstream.close()
  })

  it('makes health checks too', async (t) => {
    let status = '200'
    const { framed } = await pair(t, ({ write }, id) => write(head(id, [':status', status], END_STREAM)))
    const turns: (() => void)[] = []
    const changes: string[] = []
    const clock = () => performance.now()
    const check = new HealthCheck({
      url: framed.url,
      settings: {
        path: '/up',
        host: undefined,
        intervalMs: 5000,
        timeoutMs: 20_000,
        healthyAfter: 1,
        unhealthyAfter: 1,
        statuses: undefined,
      },
      upstreamSecret: undefined,
      health: new Health(clock, () => {}),
      client: upstreamsTo([framed.url]),
      timers: {
        after: (_ms, run) => {
          turns.push(run)
          return () => turns.splice(0)
        },
        random: () => 0,
      },
      onChange: (isUp, cause) => changes.push(isUp ? 'up' : cause),
    })
    t.after(() => check.stop())
    check.start()
    status = '415'
    for (const expected of ['status 415', 'up']) {
      await until(() => turns.length > 0)
      turns.splice(0)[0]?.()
      await until(() => changes.length > 0 && changes.at(-1) === expected)
      status = '200'
    }
    const [first] = framed.connections.flatMap(headsOf)
    assert.match(first?.payload.toString('latin1') ?? '', /\/up/)
  })

  it('keeps its sessions in a hand-over to a client with the same upstream', async (t) => {
    const { framed, upstream } = await pair(t, answer)
    await send(upstream).over
    const { createUpstreams } = await import('../create-upstreams.ts')
    const options = {
      urls: [framed.url],
      connectMs: 1000,
      headersMs: 5000,
      maxConnections: 4,
      clock: () => performance.now(),
      onHealth: () => {},
    }
    const next = createUpstreams(options, upstream)
    upstream.handOver(next, options)
    assert.equal(bodyOf(await send(next).over), 'ok')
    assert.equal(framed.connections.length, 1)
    assert.throws(() => createUpstreams({ ...options, urls: [framed.url, 'http://a'] }), TypeError)
    await next.close()
  })
})
