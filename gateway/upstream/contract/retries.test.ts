import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { Readable } from 'node:stream'
import { describe, it, type TestContext } from 'node:test'
import type { UpstreamsOptions } from '../balancing/origin.ts'
import {
  bodyOf,
  ok,
  reset,
  type ScriptedOptions,
  type ScriptedUpstream,
  scriptedUpstream,
  send,
  transport,
  until,
  upstreamsTo,
} from './scripted.test-support.ts'

async function upstreamsOf(
  t: TestContext,
  scripts: ScriptedOptions[],
  options: Partial<UpstreamsOptions> = {},
) {
  const scripted = await Promise.all(scripts.map((script) => scriptedUpstream(script)))
  const health: [string, boolean][] = []
  const upstream = upstreamsTo(
    scripted.map(({ url }) => url),
    { onHealth: (url, healthy) => health.push([url, healthy]), ...options },
  )
  t.after(async () => {
    for (const each of scripted) await each.close()
    await upstream.close()
  })
  return { scripted: scripted as [ScriptedUpstream, ...ScriptedUpstream[]], upstream, health }
}

async function deadUrl(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const scheme = transport.http2 ? 'h2c' : transport.tls === undefined ? 'http' : 'https'
  const url = `${scheme}://127.0.0.1:${(server.address() as { port: number }).port}`
  server.close()
  await once(server, 'close')
  return url
}

const named = (name: string): ScriptedOptions => ({ onRequest: ({ socket }) => socket.write(ok(name)) })
/** Reads a request whole and closes the connection without a byte of response. */
const LOSES: ScriptedOptions = { onRequest: ({ socket }) => socket.destroy() }

describe('a connection that is lost after the request was written', () => {
  it('makes a safe request without a body go out a second time, on a new connection, and no third', async (t) => {
    for (const method of ['GET', 'HEAD', 'OPTIONS']) {
      const { scripted, upstream } = await upstreamsOf(t, [LOSES])
      const received = await send(upstream, { method }).over
      assert.equal(received.fault?.kind, 'broken')
      assert.equal(scripted[0].requests.length, 2)
      assert.equal(scripted[0].connections, 2)
    }
  })

  it('ends any other request with a fault, and that request is sent only once', async (t) => {
    const body = () => Readable.from([Buffer.from('abc')])
    const ready = () => {
      const source = new Readable({ read() {} })
      source.push('abc')
      return source
    }
    const headers = ['host', 'h', 'content-length', '3']
    const calls = [
      ...['POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND', 'TRACE'].map((method) => ({ method })),
      { method: 'POST', headers: ['host', 'h', 'idempotency-key', 'k'] },
      { method: 'POST', body: body(), headers },
      { method: 'POST', body: ready(), headers },
      { method: 'GET', body: ready(), headers },
      { method: 'GET', body: body(), headers },
      { method: 'GET', upgrade: 'websocket' },
    ]
    for (const call of calls) {
      const { scripted, upstream } = await upstreamsOf(t, [LOSES, LOSES])
      const received = await send(upstream, call).over
      assert.equal(received.fault?.kind, 'broken')
      const starts = scripted.map(({ received }) => received.split(' HTTP/1.1\r\n').length - 1)
      assert.deepEqual(starts.sort(), [0, 1])
    }
  })

  it('is no reason to repeat anything once a byte of a response has come', async (t) => {
    for (const bytes of [
      // A stream has begun to respond only with a whole head.
      ...(transport.http2 ? [] : ['H']),
      'HTTP/1.1 103 Early Hints\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n',
    ]) {
      const { scripted, upstream } = await upstreamsOf(t, [{ onRequest: ({ socket }) => socket.end(bytes) }])
      assert.equal((await send(upstream).over).fault?.kind, 'broken')
      assert.equal(scripted[0].requests.length, 1)
    }
  })

  it('makes the second sending go out on a new connection, not on one that may be lost as well', async (t) => {
    const used = new Set<number>()
    const { scripted, upstream } = await upstreamsOf(t, [
      {
        onRequest({ socket, connection }) {
          if (used.has(connection)) socket.destroy()
          else socket.write(ok('x'))
          used.add(connection)
        },
      },
    ])
    await Promise.all([send(upstream).over, send(upstream).over])
    assert.ok((await send(upstream).over).ended)
    assert.equal(scripted[0].connections, 3)
  })

  it('does not retry a malformed response or a timeout', async (t) => {
    const malformed = await upstreamsOf(t, [{ onRequest: ({ socket }) => socket.end('garbage\r\n\r\n') }])
    assert.equal((await send(malformed.upstream).over).fault?.kind, 'malformed')
    assert.equal(malformed.scripted[0].requests.length, 1)
    const time = { nowMs: 0 }
    const hangs: ScriptedOptions = { onRequest: () => (time.nowMs = 20_000) }
    const silent = await upstreamsOf(t, [hangs], { headersMs: 20_000, clock: () => time.nowMs })
    assert.equal((await send(silent.upstream).over).fault?.kind, 'timeout')
    assert.equal(silent.scripted[0].requests.length, 1)
  })

  it('makes a GET on a kept connection go out again, unseen by its client, and never a POST', async (t) => {
    const { scripted, upstream } = await upstreamsOf(t, [
      {
        onRequest({ socket, connection, head }) {
          if (connection === 1 && head.includes('/second')) socket.destroy()
          else socket.write(ok('x'))
        },
      },
    ])
    assert.ok((await send(upstream).over).ended)
    assert.ok((await send(upstream, { target: '/second' }).over).ended)
    assert.equal(scripted[0].requests.length, 3)
    const posting = await upstreamsOf(t, [
      {
        onRequest: ({ socket, head }) =>
          head.includes('/second') ? socket.destroy() : socket.write(ok('x')),
      },
    ])
    assert.ok((await send(posting.upstream, { method: 'POST' }).over).ended)
    const received = await send(posting.upstream, { method: 'POST', target: '/second' }).over
    assert.equal(received.fault?.kind, 'broken')
    assert.equal(posting.scripted[0].requests.length, 2)
  })
})

describe('a kept connection that the upstream closed', () => {
  it('is noticed before anything is written, so that even a POST goes out, once', async (t) => {
    for (const how of ['fin', 'reset'] as const) {
      const { scripted, upstream } = await upstreamsOf(t, [named('x')])
      assert.ok((await send(upstream, { method: 'POST' }).over).ended)
      const closing = [...scripted[0].open].map((socket) => {
        if (how === 'fin') socket.end()
        else reset(socket)
        return once(socket, 'close')
      })
      await Promise.all(closing)
      // A session writes later than a connection of HTTP/1.1, so it must read the end first, in two turns.
      for (let turn = 0; transport.http2 && turn < 2; turn++)
        await new Promise((resolve) => setImmediate(resolve))
      const body = Readable.from([Buffer.from('abc')])
      const received = await send(upstream, { method: 'POST', body }).over
      assert.ok(received.ended, String(received.fault?.cause))
      assert.equal(scripted[0].requests.length, 2)
    }
  })
})

describe('an upstream that cannot be connected to', () => {
  it('is an unreachable fault when it is the only one, and is asked again by the next call', async (t) => {
    const url = await deadUrl()
    const health: boolean[] = []
    const upstream = upstreamsTo([url], { onHealth: (_, healthy) => health.push(healthy) })
    for (let i = 0; i < 3; i++)
      assert.equal((await send(upstream, { method: 'POST' }).over).fault?.kind, 'unreachable')
    assert.deepEqual(health, [false])
    const scripted = await scriptedUpstream({
      onRequest: ({ socket, head }) => head.includes('/silent') || socket.write(ok('back')),
      port: Number(new URL(url).port),
    })
    t.after(() => scripted.close())
    const silent = send(upstream, { target: '/silent' })
    await until(() => scripted.requests.length === 1)
    assert.deepEqual(health, [false, true])
    silent.call.abort()
    assert.equal(bodyOf(await send(upstream).over), 'back')
    await upstream.close()
  })

  it('is passed over for any method, with its body unread, each upstream being tried once', async (t) => {
    const [a, b] = [await deadUrl(), await deadUrl()]
    const scripted = await scriptedUpstream(named('alive'))
    t.after(() => scripted.close())
    const upstream = upstreamsTo([a, b, scripted.url])
    for (let i = 0; i < 6; i++) {
      const body = Readable.from([Buffer.from('abc')])
      const { over, call } = send(upstream, { method: 'POST', body })
      assert.equal(bodyOf(await over), 'alive')
      assert.equal(call.upstream, scripted.url)
    }
    assert.equal(scripted.requests.length, 6)
    const ready = new Readable({ read() {} })
    ready.push('abc')
    const headers = ['host', 'h', 'content-length', '3']
    const withReady = upstreamsTo([a, b, scripted.url])
    for (const body of [ready, Buffer.from('abc')]) {
      assert.equal(bodyOf(await send(withReady, { method: 'POST', body, headers }).over), 'alive')
      assert.equal(scripted.requests.pop()?.body, 'abc')
    }
    await withReady.close()
    assert.deepEqual(
      [...new Set(scripted.requests.map(({ body }) => body))],
      [transport.http2 ? 'abc' : '3\r\nabc\r\n0\r\n\r\n'],
    )
    await scripted.close()
    await until(() => scripted.open.size === 0)
    const received = await send(upstream, { method: 'POST' }).over
    assert.equal(received.fault?.kind, 'unreachable')
    await upstream.close()
  })
})

describe('an upstream that takes no new connection', () => {
  it('is healthy again once it responds on an open connection', async () => {
    const health: boolean[] = []
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.on('data', () => socket.write(ok('x')))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as { port: number }).port}`
    const upstream = upstreamsTo([url], { onHealth: (_, healthy) => health.push(healthy) })
    assert.ok((await send(upstream).over).ended)
    server.close()
    const standing = send(upstream, { method: 'POST' })
    const refused = send(upstream, { method: 'POST' })
    assert.equal((await refused.over).fault?.kind, 'unreachable')
    assert.ok((await standing.over).ended)
    assert.ok((await send(upstream).over).ended)
    assert.deepEqual(health.at(-1), true)
    assert.ok(health.includes(false))
    await upstream.close()
  })
})

describe('several upstreams', () => {
  it('are asked in turn when they are equally busy, and the least busy one when not', async (t) => {
    const { scripted, upstream } = await upstreamsOf(t, [named('a'), named('b'), named('c')])
    for (let i = 0; i < 9; i++) await send(upstream).over
    assert.deepEqual(
      scripted.map(({ requests }) => requests.length),
      [3, 3, 3],
    )
    const slow: ScriptedOptions = {
      onRequest: ({ socket, head }) => head.includes('/slow') || socket.write(ok('x')),
    }
    const uneven = await upstreamsOf(t, [slow, slow])
    for (let i = 0; i < 10; i++) {
      send(uneven.upstream, { target: '/slow' })
      await send(uneven.upstream).over
    }
    const slowOnes = uneven.scripted.map(({ received }) => received.split('/slow').length - 1)
    assert.deepEqual(slowOnes, [5, 5])
    const busy = await upstreamsOf(t, [{}, {}, {}])
    for (let i = 0; i < 10; i++) send(busy.upstream).over
    await until(() => busy.scripted.reduce((sum, { requests }) => sum + requests.length, 0) === 10)
    assert.deepEqual(busy.scripted.map(({ requests }) => requests.length).sort(), [3, 3, 4])
  })

  for (const [how, script] of Object.entries<ScriptedOptions>({
    'responds 503': {
      onRequest: ({ socket }) => socket.write('HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n'),
    },
    'breaks connections off': { onRequest: ({ socket }) => socket.destroy() },
  })) {
    it(`send little to an upstream that ${how} at once, and come back when it has recovered`, async (t) => {
      let nowMs = 0
      let ill = true
      const sick: ScriptedOptions = {
        onRequest: (request) => (ill ? script.onRequest?.(request) : request.socket.write(ok('recovered'))),
      }
      const { scripted, upstream } = await upstreamsOf(t, [sick, named('b')], { clock: () => nowMs })
      for (let i = 0; i < 100; i++) {
        await send(upstream, { method: 'POST' }).over
        nowMs += 10
      }
      assert.ok(scripted[0].requests.length <= 5, `${scripted[0].requests.length} of 100`)
      ill = false
      nowMs += 10_000
      await Promise.all(Array.from({ length: 20 }, () => send(upstream).over))
      const before = scripted[0].requests.length
      for (let i = 0; i < 20; i++) await send(upstream).over
      assert.equal(scripted[0].requests.length - before, 10)
    })
  }

  it('that all respond 503 are all asked', async (t) => {
    const no: ScriptedOptions = {
      onRequest: ({ socket }) => socket.write('HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n'),
    }
    const { scripted, upstream } = await upstreamsOf(t, [no, no])
    for (let i = 0; i < 40; i++) assert.equal((await send(upstream).over).status, 503)
    for (const { requests } of scripted) assert.ok(requests.length >= 10)
  })

  it('go on without one that fails, which is asked again after its back-off, by one call at a time', async (t) => {
    let nowMs = 0
    const { scripted, upstream, health } = await upstreamsOf(t, [named('a'), named('b')], {
      clock: () => nowMs,
    })
    const port = Number(new URL(scripted[0].url).port)
    await scripted[0].close()
    for (let i = 0; i < 10; i++) assert.equal(bodyOf(await send(upstream).over), 'b')
    assert.deepEqual(health, [[scripted[0].url, false]])
    const back = await scriptedUpstream({ ...named('a again'), port })
    t.after(() => back.close())
    for (let i = 0; i < 10; i++) assert.equal(bodyOf(await send(upstream).over), 'b')
    assert.equal(back.connections, 0)
    nowMs += 250
    const received = await Promise.all(Array.from({ length: 10 }, () => send(upstream).over))
    assert.equal(received.filter((each) => bodyOf(each) === 'a again').length, 1)
    assert.deepEqual(health.at(-1), [scripted[0].url, true])
    await Promise.all(Array.from({ length: 10 }, () => send(upstream).over))
    assert.equal(back.requests.length, 6)
  })
})
