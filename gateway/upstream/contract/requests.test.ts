import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { fieldsOf } from '../../edge/syntax/field.test-support.ts'
import { CommonFields } from '../common-fields.ts'
import type { UpstreamClient } from '../create-upstreams.ts'
import {
  bodyOf,
  ok,
  pair,
  type RequestFacts,
  type ScriptedOptions,
  send,
  until,
} from './scripted.test-support.ts'

const RESPONSE: ScriptedOptions = { onRequest: ({ socket }) => socket.write(ok('x')) }

/** A real downstream request: sent to a server in front of `upstream`, which forwards it. */
async function fromDownstream(
  upstream: UpstreamClient,
  factsOf: (req: IncomingMessage) => RequestFacts,
  wire: { method: string; headers: Record<string, string>; chunks: string[] },
) {
  const gone = Promise.withResolvers<IncomingMessage>()
  const server = createServer((req, res) => {
    const sent = send(upstream, { method: req.method ?? '', body: req, ...factsOf(req) })
    sent.over.then((received) => {
      res.end(bodyOf(received), () => gone.resolve(req))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const client = request({
    port,
    host: '127.0.0.1',
    method: wire.method,
    headers: wire.headers,
    agent: false,
  })
  for (const chunk of wire.chunks) client.write(chunk)
  client.end()
  const [response] = await once(client, 'response')
  const body = (await response.toArray()).join('')
  const req = await gone.promise
  const socketStood = req.socket !== null
  server.close()
  return { body, socketStood }
}

describe('a request on the wire', () => {
  it('has only the start line and fields of the call, and fields that HTTP adds for the connection', async (t) => {
    const { scripted, upstream } = await pair(t, RESPONSE)
    await send(upstream, { target: '/a?b=c', headers: ['Host', 'h', 'X-A', '1', 'x-a', 'J\xf6rg'] }).over
    assert.equal(
      scripted.received,
      'GET /a?b=c HTTP/1.1\r\nhost: h\r\nconnection: keep-alive\r\nX-A: 1\r\nx-a: J\xf6rg\r\n\r\n',
    )
  })

  it('has the common fields first, the same each time, and Host or a length only once in all', async (t) => {
    const { scripted, upstream } = await pair(t, RESPONSE)
    const common = new CommonFields(fieldsOf(['Host', 'h', 'X-A', 'J\xf6rg']))
    for (const own of ['1', '2', '3']) await send(upstream, { common, headers: ['X-B', own] }).over
    assert.deepEqual(
      scripted.requests.map(({ head }) => head),
      ['1', '2', '3'].map(
        (own) => `GET / HTTP/1.1\r\nhost: h\r\nconnection: keep-alive\r\nX-A: J\xf6rg\r\nX-B: ${own}`,
      ),
    )
    for (const fields of [
      ['host', 'h'],
      ['Connection', 'close'],
    ]) {
      const { fault } = await send(upstream, { common, headers: fields }).over
      assert.match(fault?.cause ?? '', /more than one Host|belongs to one connection/)
    }
    const refused = new CommonFields(fieldsOf(['Upgrade', 'x']))
    const { fault } = await send(upstream, { common: refused, headers: ['host', 'h'] }).over
    assert.match(fault?.cause ?? '', /upgrade belongs to one connection/)
    assert.equal(scripted.requests.length, 3)
  })

  it('names its length without zeros before it', async (t) => {
    const { scripted, upstream } = await pair(t, RESPONSE)
    const body = Readable.from([Buffer.from('abcde')])
    await send(upstream, { method: 'POST', headers: ['host', 'h', 'Content-Length', '005'], body }).over
    assert.match(scripted.requests[0]!.head, /\r\ncontent-length: 5(\r\n|$)/)
    assert.equal(scripted.requests[0]!.body, 'abcde')
  })

  it('without a body names no length, or zero where the method usually has one', async (t) => {
    const { scripted, upstream } = await pair(t, RESPONSE)
    for (const method of ['GET', 'DELETE', 'OPTIONS', 'POST', 'PUT', 'PATCH'])
      await send(upstream, { method }).over
    const lengths = scripted.requests.map(
      ({ head }) => /content-length: \d+|transfer-encoding/.exec(head)?.[0],
    )
    assert.deepEqual(lengths, [undefined, undefined, undefined, ...Array(3).fill('content-length: 0')])
  })

  for (const method of ['GET', 'DELETE', 'POST', 'PUT', 'OPTIONS', 'PROPFIND']) {
    it(`of ${method} carries a body of known length under that length, and one of unknown length in chunks`, async (t) => {
      const { scripted, upstream } = await pair(t, RESPONSE)
      const known = Readable.from([Buffer.from('GET /evil '), Buffer.from('HTTP/1.1')])
      await send(upstream, { method, headers: ['host', 'h', 'content-length', '18'], body: known }).over
      const unknown = new PassThrough()
      const sent = send(upstream, { method, body: unknown })
      unknown.write('GET /evil ')
      await until(() => scripted.received.includes('\r\na\r\nGET /evil '))
      unknown.end('HTTP/1.1')
      await sent.over
      assert.deepEqual(
        scripted.requests.map(({ body }) => body),
        ['GET /evil HTTP/1.1', 'a\r\nGET /evil \r\n8\r\nHTTP/1.1\r\n0\r\n\r\n'],
      )
      assert.match(scripted.requests[0]!.head, /\r\ncontent-length: 18$/)
      assert.match(scripted.requests[1]!.head, /\r\ntransfer-encoding: chunked$/)
    })
  }

  it('never has a body longer or shorter than the length it names', async (t) => {
    for (const method of ['GET', 'POST', 'DELETE']) {
      for (const [length, bytes] of [
        ['3', 'abcGET /evil HTTP/1.1\r\n\r\n'],
        ['30', 'abc'],
      ] as const) {
        const { scripted, upstream } = await pair(t, RESPONSE)
        const body = new PassThrough()
        const sent = send(upstream, { method, headers: ['host', 'h', 'content-length', length], body })
        body.write(bytes.slice(0, 2))
        await until(() => scripted.received.endsWith('ab') || scripted.received.endsWith('b\r\n'))
        body.end(bytes.slice(2))
        const received = await sent.over
        assert.ok(received.fault, `${method} ${length}`)
        await until(() => scripted.open.size === 0)
        assert.ok(!scripted.received.includes('evil'))
        assert.equal(scripted.requests.length, 0)
      }
    }
  })
})

describe('the body of a real downstream request', () => {
  for (const [how, headers] of [
    ['of known length', { 'content-length': '6' }],
    ['in chunks', { 'transfer-encoding': 'chunked' }],
  ] as const) {
    for (const method of ['POST', 'DELETE', 'GET']) {
      it(`of ${method} ${how} arrives whole, and the client's connection is left alone`, async (t) => {
        const { scripted, upstream } = await pair(t, RESPONSE)
        const wire = { method, headers, chunks: ['abc', 'def'] }
        const factsOf = (req: IncomingMessage) => ({
          headers: ['host', 'h', ...(req.headers['content-length'] ? ['content-length', '6'] : [])],
        })
        const { body, socketStood } = await fromDownstream(upstream, factsOf, wire)
        assert.equal(body, 'x')
        assert.ok(socketStood)
        assert.match(scripted.requests[0]!.body, /^(abcdef|(6\r\nabcdef|3\r\nabc\r\n3\r\ndef)\r\n0\r\n\r\n)$/)
      })
    }
  }

  it('that is broken off never arrives as if whole', async (t) => {
    for (const headers of [{ 'transfer-encoding': 'chunked' }, { 'content-length': '1000' }]) {
      const { scripted, upstream } = await pair(t, RESPONSE)
      const server = createServer((req) => {
        const length = req.headers['content-length']
        sent.resolve(
          send(upstream, {
            method: 'POST',
            headers: ['host', 'h', ...(length ? ['content-length', length] : [])],
            body: req,
          }),
        )
      }).listen(0, '127.0.0.1')
      const sent = Promise.withResolvers<ReturnType<typeof send>>()
      await once(server, 'listening')
      const { port } = server.address() as AddressInfo
      const client = request({ port, host: '127.0.0.1', method: 'POST', headers, agent: false })
      client.on('error', () => {})
      client.write('half')
      await until(() => scripted.received.includes('half'))
      client.destroy()
      const received = await (await sent.promise).over
      assert.equal(received.fault?.kind, 'broken')
      await until(() => scripted.open.size === 0)
      assert.equal(scripted.requests.length, 0)
      assert.ok(!scripted.received.endsWith('0\r\n\r\n'))
      server.close()
    }
  })
})

describe('a body that is there already', () => {
  for (const method of ['GET', 'DELETE', 'POST', 'PUT']) {
    it(`of ${method} goes out under its length`, async (t) => {
      const { scripted, upstream } = await pair(t, RESPONSE)
      for (let i = 0; i < 3; i++) {
        const body = new Readable({ read() {} })
        body.push('abc')
        body.push('def')
        assert.ok(
          (await send(upstream, { method, headers: ['host', 'h', 'content-length', '6'], body }).over).ended,
        )
      }
      assert.deepEqual(
        scripted.requests.map(({ body }) => body),
        ['abcdef', 'abcdef', 'abcdef'],
      )
      assert.match(scripted.requests[0]!.head, /\r\ncontent-length: 6$/)
    })
  }
})

describe('a body that goes wrong', () => {
  it('before or while it is sent is a fault, and the request never looks whole', async (t) => {
    const destroyed = (when: 'before' | 'at once' | 'midway', error?: Error) => async () => {
      const { scripted, upstream } = await pair(t, RESPONSE)
      const body = new PassThrough()
      body.on('error', () => {})
      if (when === 'before') body.destroy(error)
      const sent = send(upstream, { method: 'POST', body })
      if (when === 'at once') body.destroy(error)
      if (when === 'midway') {
        body.write('half')
        await until(() => scripted.received.includes('half'))
        body.destroy(error)
      }
      const received = await sent.over
      assert.equal(received.fault?.kind, 'broken')
      await until(() => scripted.open.size === 0)
      assert.equal(scripted.requests.length, 0)
    }
    for (const when of ['before', 'at once', 'midway'] as const) {
      await destroyed(when)()
      await destroyed(when, new Error('gone'))()
    }
  })
})

describe('a response that comes before the whole request was sent', () => {
  for (const status of [200, 413]) {
    it(`is passed on, the upload stops, and its connection is not used again: ${status}`, async (t) => {
      const early = `HTTP/1.1 ${status} X\r\nContent-Length: 3\r\n\r\nbig`
      const { scripted, upstream } = await pair(
        t,
        {
          onConnection(socket, connection) {
            if (connection === 1) socket.once('data', () => socket.write(early))
          },
          ...RESPONSE,
        },
        // No connection is closed because it is idle.
        { clock: () => 0 },
      )
      const body = new PassThrough()
      const sent = send(upstream, { method: 'POST', body })
      body.write('first')
      const received = await sent.over
      assert.deepEqual([received.status, bodyOf(received), received.ended], [status, 'big', true])
      await until(() => scripted.open.size === 0)
      // The body belongs to its owner: held back, but whole.
      assert.equal(body.destroyed, false)
      assert.equal(body.isPaused(), true)
      assert.equal(body.listenerCount('data'), 0)
      assert.ok((await send(upstream).over).ended)
      assert.equal(scripted.connections, 2)
    })
  }

  it('reaches a real client that is still sending', async (t) => {
    const { upstream } = await pair(t, {
      onConnection: (socket) =>
        socket.once('data', () => socket.write('HTTP/1.1 413 No\r\nContent-Length: 3\r\n\r\nbig')),
    })
    const server = createServer((req, res) => {
      const sent = send(upstream, { method: 'POST', body: req })
      sent.over.then((received) =>
        res.writeHead(received.status ?? 500, { connection: 'close' }).end(bodyOf(received)),
      )
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const client = request({ port, host: '127.0.0.1', method: 'POST', agent: false })
    client.on('error', () => {})
    client.write('first')
    const [response] = await once(client, 'response')
    assert.equal(response.statusCode, 413)
    assert.equal((await response.toArray()).join(''), 'big')
    client.destroy()
    server.close()
  })
})

describe('a call that cannot be sent', () => {
  const BAD: Readonly<Record<string, RequestFacts>> = {
    'an Expect field': { headers: ['host', 'h', 'expect', '100-continue'] },
    'a Transfer-Encoding field': { headers: ['host', 'h', 'transfer-encoding', 'chunked'] },
    'a Keep-Alive field': { headers: ['host', 'h', 'keep-alive', 'timeout=5'] },
    'an Upgrade field': { headers: ['host', 'h', 'upgrade', 'websocket'] },
    'two Hosts': { headers: ['host', 'h', 'host', 'i'] },
    'two lengths': { headers: ['host', 'h', 'content-length', '1', 'content-length', '1'] },
    'a length that is no number': { headers: ['host', 'h', 'content-length', '1x'] },
    'an odd Connection': { headers: ['host', 'h', 'connection', '@'] },
    'a space in the target': { target: '/a b' },
    'the target *': { target: '*', method: 'OPTIONS' },
    'no method': { method: '' },
    'a method with a space': { method: 'GET /x' },
    'an upgrade with a CR LF': { upgrade: 'websocket\r\nx: y' },
  }
  for (const [what, call] of Object.entries(BAD)) {
    it(`because of ${what} is a fault after send has returned, and costs no connection however often`, async (t) => {
      const health: boolean[] = []
      const options = { maxConnections: 2, onHealth: (_: string, healthy: boolean) => health.push(healthy) }
      const { scripted, upstream } = await pair(t, RESPONSE, options)
      const bad = Array.from({ length: 20 }, () => send(upstream, call).over)
      for (const received of await Promise.all(bad)) assert.equal(received.fault?.kind, 'unreachable')
      assert.ok((await send(upstream, call).over).fault)
      const good = await Promise.all([send(upstream).over, send(upstream).over])
      assert.deepEqual([good[0].ended, good[1].ended], [true, true])
      assert.equal(scripted.requests.length, 2)
      assert.deepEqual(health, [])
    })
  }
})
