import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import {
  bodyOf,
  ok,
  pair,
  type Received,
  requestOf,
  reset,
  scriptedUpstream,
  send,
  until,
  upstreamsTo,
  type WireRequest,
} from './scripted.test-support.ts'

type Script = string | ((request: WireRequest) => unknown)

/**
 * Calls an upstream twice. It responds with `script` and then, if `close` is set, ends the connection.
 *
 * @returns what the first call receives, and how many connections there were: 1 when the first is used again
 */
async function responseTo(
  script: Script,
  options: { close?: 'fin' | 'reset'; method?: string; upgrade?: string } = {},
): Promise<{ received: Received; connections: number }> {
  const scripted = await scriptedUpstream({
    onRequest(request) {
      if (typeof script === 'function') script(request)
      else
        request.socket.write(script, 'latin1', () => {
          if (options.close === 'fin') request.socket.end()
          if (options.close === 'reset') reset(request.socket)
        })
    },
  })
  const upstream = upstreamsTo([scripted.url])
  const call = { method: options.method ?? 'POST', upgrade: options.upgrade }
  const received = await send(upstream, call).over
  const again = await send(upstream, call).over
  again.socket?.destroy()
  await upstream.close()
  await scripted.close()
  return { received, connections: scripted.connections }
}

/** `end` of a whole response, else the kind of the fault, with its cause where the kind is not `expected`. */
function outcome(received: Received, expected: string): string {
  const kind = received.fault?.kind ?? (received.ended ? 'end' : 'none')
  return kind === expected ? kind : `${kind}: ${received.fault?.cause}`
}

describe('a status', () => {
  for (const status of [600, 700, 999, 99]) {
    it(`of ${status} is malformed`, async () => {
      const { received } = await responseTo(
        `HTTP/1.1 ${String(status).padStart(3, '0')} X\r\nContent-Length: 0\r\n\r\n`,
      )
      assert.deepEqual([received.status, received.fault?.kind], [undefined, 'malformed'])
    })
  }

  it('of 599 is passed on', async () => {
    const { received } = await responseTo('HTTP/1.1 599 X\r\nContent-Length: 0\r\n\r\n')
    assert.equal(received.status, 599)
  })
})

describe('a response with many fields', () => {
  it('is passed on up to 1,000 of them, and as one field of 60,000 bytes', async (t) => {
    const many = Array.from({ length: 1000 }, (_, i) => `X-Revoke-Session: grant-${i}\r\n`).join('')
    const one = `X-Revoke-Session: ${'a'.repeat(60_000)}\r\n`
    const { upstream } = await pair(t, {
      onRequest: ({ socket, head }) => socket.write(ok('x', head.includes('/many') ? many : one)),
    })
    const received = await send(upstream, { target: '/many' }).over
    assert.equal(received.headers.filter((name) => name === 'X-Revoke-Session').length, 1000)
    assert.ok((await send(upstream, { target: '/one' }).over).headers.includes('a'.repeat(60_000)))
  })
})

describe('a good response', () => {
  it('is passed on with its fields as received, repeated ones apart and bytes above ASCII kept', async () => {
    const { received } = await responseTo(
      'HTTP/1.1 201 Made\r\nSet-Cookie: a=1\r\nSET-COOKIE: b=2\r\nX-Name: J\xf6rg\r\nX-Empty:\r\nConnection: X-Name\r\nContent-Length: 2\r\n\r\nhi',
    )
    assert.equal(received.status, 201)
    assert.deepEqual(received.headers, [
      ...[
        'Set-Cookie',
        'a=1',
        'SET-COOKIE',
        'b=2',
        'X-Name',
        'J\xf6rg',
        'X-Empty',
        '',
        'Connection',
        'X-Name',
      ],
      ...['Content-Length', '2'],
    ])
    assert.equal(bodyOf(received), 'hi')
    assert.ok(received.ended)
  })

  it('drops trailers and chunk extensions', async () => {
    const { received } = await responseTo(
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nX-Trailer: evil\r\n\r\n',
    )
    assert.equal(bodyOf(received), 'abc')
    assert.deepEqual(received.headers, ['Transfer-Encoding', 'chunked'])
    assert.ok(received.ended)
  })

  it('lasts until the connection is closed when nothing else frames it', async () => {
    const { received } = await responseTo('HTTP/1.1 200 OK\r\n\r\nall of it', { close: 'fin' })
    assert.equal(bodyOf(received), 'all of it')
    assert.ok(received.ended)
  })

  it('to HEAD, 204 and 304 has no body, whatever length it names', async () => {
    const head = await responseTo('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n', { method: 'HEAD' })
    assert.deepEqual([head.received.status, head.received.chunks, head.received.ended], [200, [], true])
    const noContent = await responseTo('HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n')
    assert.deepEqual([noContent.received.status, noContent.received.ended], [204, true])
    const notModified = await responseTo('HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n', {
      method: 'GET',
    })
    assert.deepEqual([notModified.received.status, notModified.received.ended], [304, true])
  })

  it('that announces a body which its status cannot have is the last on its connection', async () => {
    for (const status of ['204 No Content', '304 Not Modified']) {
      for (const framing of ['Content-Length: 5', 'Transfer-Encoding: chunked']) {
        for (const method of ['GET', 'HEAD', 'POST']) {
          const { received, connections } = await responseTo(`HTTP/1.1 ${status}\r\n${framing}\r\n\r\n`, {
            method,
          })
          assert.deepEqual([received.ended, received.chunks, connections], [true, [], 2])
        }
      }
    }
  })

  it('in HTTP/1.0 is the last on its connection, also with Connection: keep-alive', async () => {
    const framings = ['Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n', 'Content-Length: 1\r\n\r\na']
    for (const framing of framings) {
      const { received, connections } = await responseTo(
        `HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n${framing}`,
      )
      assert.deepEqual([bodyOf(received), received.ended], ['a', true])
      assert.equal(connections, 2)
    }
  })

  it('means the same wherever the network splits it', async () => {
    const bytes = Buffer.from(
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nX-Long:   a b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;e\r\n!\r\n0\r\nT: x\r\n\r\n',
    )
    const scripted = await scriptedUpstream({
      async onRequest({ socket, head }) {
        const at = Number(/POST \/(\d+)/.exec(head)?.[1])
        socket.write(bytes.subarray(0, at))
        // Nagle is off, and two turns of the event loop are enough for the first part to arrive alone.
        await new Promise((resolve) => setTimeout(resolve, 2))
        socket.write(bytes.subarray(at))
      },
    })
    const upstream = upstreamsTo([scripted.url], { maxConnections: 500 })
    const calls = Array.from({ length: bytes.length }, (_, at) =>
      send(upstream, { method: 'POST', target: `/${at}` }),
    )
    for (const received of await Promise.all(calls.map((call) => call.over))) {
      assert.deepEqual(received.information, [{ status: 103, headers: ['Link', '</a>'] }])
      assert.deepEqual(received.headers, ['X-Long', 'a b', 'Transfer-Encoding', 'chunked'])
      assert.deepEqual([received.status, bodyOf(received), received.ended], [200, 'hello!', true])
    }
    await upstream.close()
    await scripted.close()
  })
})

describe('interim responses', () => {
  it('are passed on, except 100, which the gateway itself sends', async () => {
    const { received, connections } = await responseTo(
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 199 Odd\r\n\r\n${ok('done')}`,
    )
    assert.deepEqual(received.information, [
      { status: 102, headers: [] },
      { status: 103, headers: ['Link', '</a>'] },
      { status: 199, headers: [] },
    ])
    assert.deepEqual([received.status, bodyOf(received), received.ended], [200, 'done', true])
    assert.equal(connections, 1)
  })

  it('do not cost the connection', async (t) => {
    const { scripted, upstream } = await pair(t, {
      onRequest: ({ socket }) => socket.write(`HTTP/1.1 100 Continue\r\n\r\n${ok('x')}`),
    })
    for (let i = 0; i < 5; i++) assert.ok((await send(upstream).over).ended)
    assert.equal(scripted.connections, 1)
  })

  it('of 101 that was not requested are malformed, with and without an Upgrade field', async () => {
    const bare = await responseTo(`HTTP/1.1 101 Switching\r\n\r\n${ok('x')}`)
    assert.deepEqual([bare.received.fault?.kind, bare.received.status], ['malformed', undefined])
    const named = await responseTo(
      'HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nx',
    )
    assert.deepEqual([named.received.fault?.kind, named.received.status], ['malformed', undefined])
  })
})

describe('an upgrade', () => {
  const SWITCH =
    'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\nX-A: b\r\n\r\n'

  it('hands over the socket with the first bytes in it, and both directions work', async (t) => {
    const { scripted, upstream } = await pair(t, {
      onRequest: ({ socket }) => socket.write(`${SWITCH}first`),
    })
    const call = { method: 'GET', target: '/ws', headers: ['host', 'a', 'sec-websocket-version', '13'] }
    const { socket, headers } = await send(upstream, { ...call, upgrade: 'websocket' }).over
    assert.ok(socket)
    assert.deepEqual(headers, ['Connection', 'upgrade', 'Upgrade', 'WebSocket', 'X-A', 'b'])
    assert.match(
      scripted.requests[0]!.head,
      /^GET \/ws HTTP\/1\.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n/,
    )
    const [chunk] = await once(socket, 'data')
    assert.equal(chunk.toString(), 'first')
    socket.write('ping')
    await until(() => scripted.received.endsWith('ping'))
    scripted.requests[0]!.socket.write('pong')
    assert.equal((await once(socket, 'data'))[0].toString(), 'pong')
    // The tunnel no longer belongs to an exchange, so closing the client leaves the tunnel open.
    await upstream.close()
    assert.equal(socket.destroyed, false)
    scripted.requests[0]!.socket.destroy()
    await once(socket, 'close')
  })

  it('that gets another status is an ordinary response, and the connection is used again', async (t) => {
    const { scripted, upstream } = await pair(t, {
      onRequest: ({ socket }) => socket.write('HTTP/1.1 401 No\r\nContent-Length: 4\r\n\r\nnope'),
    })
    for (let i = 0; i < 3; i++) {
      const received = await send(upstream, { upgrade: 'websocket' }).over
      assert.deepEqual([received.status, bodyOf(received), received.ended], [401, 'nope', true])
    }
    assert.equal(scripted.connections, 1)
  })

  it('to another protocol, to two, or to none is malformed, and the connection is closed', async () => {
    for (const fields of ['Upgrade: h2c', 'Upgrade: h2c\r\nUpgrade: websocket', 'X: y']) {
      const script = `HTTP/1.1 101 Switching\r\nConnection: upgrade\r\n${fields}\r\n\r\n`
      const { received, connections } = await responseTo(script, { method: 'GET', upgrade: 'websocket' })
      assert.equal(received.fault?.kind, 'malformed', fields)
      assert.equal(connections, 2)
    }
  })

  it('is not touched by what happens to the next call in its place of the pool', async (t) => {
    const { upstream } = await pair(
      t,
      { onRequest: ({ socket }) => socket.write(SWITCH) },
      { maxConnections: 1 },
    )
    const { socket } = await send(upstream, { upgrade: 'websocket' }).over
    assert.ok(socket)
    send(upstream).call.abort()
    await upstream.close()
    assert.equal(socket.destroyed, false)
    socket.destroy()
  })

  it('that is refused for its protocol closes the connection', async (t) => {
    const { scripted, upstream } = await pair(t, {
      onRequest: ({ socket }) => socket.write(SWITCH.replace('WebSocket', 'h2c')),
    })
    assert.equal((await send(upstream, { upgrade: 'websocket' }).over).fault?.kind, 'malformed')
    await until(() => scripted.open.size === 0)
  })

  it('leaves its place in the pool to the next call, on a new connection', async (t) => {
    const { upstream } = await pair(
      t,
      {
        onRequest: ({ socket, head }) =>
          socket.write(head.includes('upgrade: websocket') ? SWITCH : ok('plain')),
      },
      { maxConnections: 1 },
    )
    for (let i = 0; i < 3; i++) {
      const { socket } = await send(upstream, { upgrade: 'websocket' }).over
      assert.ok(socket)
      assert.equal(bodyOf(await send(upstream).over), 'plain')
      socket.destroy()
    }
  })
})

describe('a hostile response', () => {
  const BEFORE_HEAD: Readonly<Record<string, string>> = {
    'garbage instead of a status line': 'hello there\r\n\r\n',
    'another protocol': 'ICY 200 OK\r\n\r\n',
    'a status that is no number': 'HTTP/1.1 2x0 OK\r\n\r\n',
    'a status of two digits': 'HTTP/1.1 20 OK\r\n\r\n',
    'a status below 100': 'HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n',
    'length and chunked together':
      'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'chunked and length together':
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n',
    'two lengths': 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
    'two equal lengths': 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na',
    'a list of lengths': 'HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\na',
    'a signed length': 'HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na',
    'a negative length': 'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\na',
    'a length beyond 64 bits': 'HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\na',
    'a coding other than chunked': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
    'a coding that is not chunked':
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nConnection: close\r\n\r\nx',
    'chunked twice':
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'an empty coding': 'HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n',
    'a space before the colon': 'HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nhi',
    'a folded field': 'HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n',
    'a bare CR in a value': 'HTTP/1.1 200 OK\r\nX-A: b\rc\r\nContent-Length: 0\r\n\r\n',
    'a NUL in a value': 'HTTP/1.1 200 OK\r\nX-A: b\0c\r\nContent-Length: 0\r\n\r\n',
    'a bare LF at the end of a line': 'HTTP/1.1 200 OK\nContent-Length: 0\n\n',
    'a field without a name': 'HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 0\r\n\r\n',
    'a control character in a name': 'HTTP/1.1 200 OK\r\nX\x01A: b\r\nContent-Length: 0\r\n\r\n',
    'giant fields': `HTTP/1.1 200 OK\r\nX-A: ${'a'.repeat(70_000)}\r\nContent-Length: 0\r\n\r\n`,
    'giant fields in many lines': `HTTP/1.1 200 OK\r\n${'X-A: aaaaaaaaaaaaaaaa\r\n'.repeat(4000)}\r\n`,
  }
  for (const [what, script] of Object.entries(BEFORE_HEAD)) {
    it(`with ${what} is malformed, nothing of it is passed on, and its connection is not used again`, async () => {
      const { received, connections } = await responseTo(script)
      assert.equal(outcome(received, 'malformed'), 'malformed')
      assert.equal(received.status, undefined)
      assert.equal(connections, 2)
    })
  }

  const AFTER_HEAD: Readonly<Record<string, string>> = {
    'a chunk size that is no number':
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nxyz\r\n',
    'a chunk longer than announced': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n',
    'a bare LF after a chunk size':
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n',
    'giant trailers': `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: ${'a'.repeat(70_000)}\r\n\r\n`,
  }
  for (const [what, script] of Object.entries(AFTER_HEAD)) {
    it(`with ${what} is a fault after its head, never an end`, async () => {
      const { received } = await responseTo(script)
      assert.equal(outcome(received, 'malformed'), 'malformed')
      assert.deepEqual([received.status, received.ended], [200, false])
    })
  }

  const CUT: Readonly<Record<string, string>> = {
    'by length': 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc',
    'by length, then to be closed': 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 10\r\n\r\nabc',
    'in chunks': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n',
    'in chunks, then to be closed':
      'HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n',
  }
  for (const [how, script] of Object.entries(CUT)) {
    for (const close of ['fin', 'reset'] as const) {
      it(`framed ${how} and cut by ${close} is broken, never whole`, async () => {
        const { received } = await responseTo(script, { close })
        assert.equal(outcome(received, 'broken'), 'broken')
        assert.equal(received.ended, false)
      })
    }
  }

  it('that lasts until the connection is closed but is cut by a reset is broken', async () => {
    const { received } = await responseTo(({ socket }) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\nhalf', () => setTimeout(() => reset(socket), 20))
    })
    assert.deepEqual([received.status, bodyOf(received), received.ended], [200, 'half', false])
    assert.equal(received.fault?.kind, 'broken')
  })

  it('that breaks off within its head, or before it, is broken', async () => {
    for (const script of ['', 'H', 'HTTP/1.1 200 OK\r\nContent-Le']) {
      const { received } = await responseTo(script, { close: 'fin' })
      assert.deepEqual([received.fault?.kind, received.status], ['broken', undefined])
    }
  })

  it('with bytes after its end never gives them to another exchange', async () => {
    for (const surplus of [ok('EVIL'), 'EVIL', `\r\n${ok('EVIL')}`]) {
      for (const late of [false, true]) {
        const scripted = await scriptedUpstream({
          onRequest: ({ socket }) => socket.write(late ? ok('good') : ok('good') + surplus),
        })
        // No connection is closed because it is idle.
        const upstream = upstreamsTo([scripted.url], { maxConnections: 1, clock: () => 0 })
        for (let i = 0; i < 5; i++) {
          const received = await send(upstream, { method: 'POST' }).over
          if (received.ended) assert.equal(bodyOf(received), 'good')
          if (!late) continue
          for (const socket of scripted.open) socket.write(surplus)
          await until(() => scripted.open.size === 0)
        }
        await upstream.close()
        await scripted.close()
      }
    }
  })

  it('of 204 or to HEAD with a body all the same ends where HTTP ends it, and its connection is not used again', async () => {
    for (const [method, head] of [
      ['POST', 'HTTP/1.1 204 No Content\r\n\r\n'],
      ['POST', 'HTTP/1.1 204 No Content\r\nContent-Length: 40\r\n\r\n'],
      ['GET', 'HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n28\r\n'],
      ['HEAD', 'HTTP/1.1 204 No Content\r\nContent-Length: 40\r\n\r\n'],
      ['GET', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 40\r\n\r\n'],
      ['HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n'],
    ]) {
      const { received, connections } = await responseTo(`${head}${ok('EVIL')}`, { method: method! })
      assert.deepEqual([received.ended, received.chunks], [true, []])
      assert.equal(connections, 2)
    }
  })
})

describe('a receiver that makes a mistake', () => {
  it('in the head gets a fault, and the exchange ends', async (t) => {
    const { upstream } = await pair(
      t,
      { onRequest: ({ socket }) => socket.write(ok('x')) },
      { maxConnections: 1 },
    )
    const fault = await new Promise<string>((resolve) => {
      upstream.send(requestOf(), {
        isHolding: false,
        information() {},
        head() {
          throw new Error('our own')
        },
        data: () => true,
        end() {},
        upgrade() {},
        fault: ({ cause }) => resolve(cause),
      })
    })
    assert.match(fault, /our own/)
    assert.ok((await send(upstream).over).ended)
  })

  it('at the end of an exchange reaches the process', async () => {
    const scripted = await scriptedUpstream({
      onRequest: ({ socket, head }) =>
        socket.write(
          head.includes('upgrade: ')
            ? 'HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n'
            : ok('x'),
        ),
    })
    for (const upgrade of [undefined, 'websocket']) {
      const script = `
        import { createUpstreams } from ${JSON.stringify(new URL('../create-upstreams.ts', import.meta.url).href)}
        const upstream = createUpstreams({ urls: ['${scripted.url}'], connectMs: 9999, headersMs: 9999,
          maxConnections: 1, clock: () => performance.now(), onHealth() {} })
        const mistake = () => { throw new Error('our own') }
        process.on('uncaughtException', (error) => { console.log(error.message); process.exit() })
        upstream.send({ method: 'GET', target: '/', fields: [], body: null, upgrade: ${JSON.stringify(upgrade)},
          idleMs: 9999, totalMs: 9999 }, { information() {}, head() {}, data: () => true, end: mistake, upgrade: mistake, fault() {} })`
      const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script])
      assert.equal(stdout, 'our own\n')
    }
    await scripted.close()
  })
})
