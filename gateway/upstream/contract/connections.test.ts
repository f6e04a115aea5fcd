import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls'
import { skipWithout } from '../../e2e/other-programs.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { openConnection } from '../open-connection.ts'
import { parseAddress } from '../upstream-address.ts'
import { UpstreamTls } from '../upstream-tls.ts'
import { bodyOf, ok, pair, type ScriptedOptions, send, until, upstreamsTo } from './scripted.test-support.ts'

const RESPONSE: ScriptedOptions = { onRequest: ({ socket }) => socket.write(ok('x')) }

describe('a connection', () => {
  const RESPONSES: readonly (readonly [string, string])[] = [
    ['GET', ok('x')],
    ['GET', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n'],
    ['HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n'],
    ['HEAD', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'],
    ['DELETE', ok('x')],
    ['DELETE', 'HTTP/1.1 204 No Content\r\n\r\n'],
    ['OPTIONS', 'HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n'],
    ['GET', 'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n'],
    ['POST', 'HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n'],
  ]
  it('is used again after every response that allows it: one connection for all', async (t) => {
    let next = 0
    const { scripted, upstream } = await pair(t, {
      onRequest: ({ socket }) => socket.write(RESPONSES[next++ % RESPONSES.length]![1]),
    })
    for (let round = 0; round < 3; round++) {
      for (const [method] of RESPONSES) assert.ok((await send(upstream, { method }).over).ended)
    }
    assert.equal(scripted.requests.length, 27)
    assert.equal(scripted.connections, 1)
  })

  it('is not used again after a response with Connection: close', async (t) => {
    const { scripted, upstream } = await pair(t, {
      onRequest: ({ socket }) => socket.write(ok('x', 'Connection: close\r\n')),
    })
    for (let i = 0; i < 3; i++) assert.ok((await send(upstream).over).ended)
    assert.equal(scripted.connections, 3)
  })

  it('is closed by us before the end of the time that the upstream announces', async (t) => {
    const { scripted, upstream } = await pair(t, {
      onRequest: ({ socket, head }) =>
        socket.write(ok('x', `Keep-Alive: timeout=${/ \/(\d)/.exec(head)?.[1]}\r\n`)),
    })
    // A keep-alive of two seconds leaves no margin, so the connection closes with the response.
    assert.ok((await send(upstream, { target: '/2' }).over).ended)
    assert.ok((await send(upstream, { target: '/9' }).over).ended)
    assert.ok((await send(upstream, { target: '/9' }).over).ended)
    assert.equal(scripted.connections, 2)
  })

  it('that is open is preferred to a new one, though one opened later was lost', async (t) => {
    const { scripted, upstream } = await pair(t, {
      onRequest: ({ socket, head }) => (head.includes('/break') ? socket.destroy() : socket.write(ok('x'))),
    })
    const both = [send(upstream).over, send(upstream, { method: 'POST', target: '/break' }).over]
    await Promise.all(both)
    for (let i = 0; i < 5; i++) await send(upstream).over
    assert.equal(scripted.connections, 2)
  })

  it('that is open is preferred to a new one, though another was lost while idle', async (t) => {
    const { scripted, upstream } = await pair(t, RESPONSE)
    await Promise.all([send(upstream).over, send(upstream).over])
    await send(upstream).over
    scripted.requests.at(-1)!.socket.destroy()
    await until(() => scripted.open.size === 1)
    // The close has reached this side when a call that needs a new connection has got its response.
    const far = await pair(t, RESPONSE)
    await send(far.upstream).over
    await send(upstream).over
    assert.equal(scripted.connections, 2)
  })

  it('beyond the maximum is a fault reported after send, and other connections go on', async (t) => {
    const { scripted, upstream } = await pair(t, {}, { maxConnections: 2 })
    const two = [send(upstream), send(upstream)]
    const third = send(upstream)
    assert.deepEqual((await third.over).fault, { kind: 'unreachable', cause: 'every connection is in use' })
    await until(() => scripted.requests.length === 2)
    for (const { socket } of scripted.requests) socket.write(ok('x'))
    for (const { over } of two) assert.ok((await over).ended)
  })

  it('to a Unix socket works the same, and a missing socket is an unreachable fault', async (t) => {
    const folder = temporaryDirectory(t)
    const { scripted, upstream } = await pair(t, { ...RESPONSE, socketPath: join(folder, 'a.sock') })
    for (let i = 0; i < 3; i++) assert.equal(bodyOf(await send(upstream).over), 'x')
    assert.equal(scripted.connections, 1)
    const missing = upstreamsTo([`unix:${join(folder, 'b.sock')}`])
    assert.equal((await send(missing).over).fault?.kind, 'unreachable')
    await missing.close()
  })
})

describe('an opening that takes too long', () => {
  it('is reported once, and its socket is destroyed by then', async () => {
    const silent = createServer().listen(0, '127.0.0.1')
    await until(() => silent.listening)
    const { port } = silent.address() as { port: number }
    const failed = Promise.withResolvers<boolean>()
    const address = parseAddress(`https://127.0.0.1:${port}`)
    const target = { address, tls: new UpstreamTls(address, undefined), connectMs: 20 }
    const socket = openConnection(target, {
      onread: { buffer: Buffer.alloc(1), callback: () => true },
      connected: () => failed.reject(new Error('connected')),
      failed: (error) => failed.resolve(error.kind === 'timeout' && socket.destroyed),
    })
    assert.equal(await failed.promise, true)
    silent.close()
  })
})

describe('closing the client', () => {
  it('closes idle connections at once, waits for exchanges under way, and refuses new calls', async (t) => {
    const { scripted, upstream } = await pair(
      t,
      { onRequest: ({ socket, head }) => (head.includes('/slow') ? undefined : socket.write(ok('x'))) },
      // No connection is closed because it is idle.
      { clock: () => 0 },
    )
    const slow = send(upstream, { target: '/slow' })
    await Promise.all([send(upstream).over, send(upstream).over])
    await until(() => scripted.requests.length === 3)
    let closed = false
    const closing = Promise.all([upstream.close(), upstream.close()]).then(() => {
      closed = true
    })
    await until(() => scripted.open.size === 1)
    const refused = send(upstream)
    assert.deepEqual((await refused.over).fault, {
      kind: 'unreachable',
      cause: 'the upstreams are being closed',
    })
    assert.equal(closed, false)
    scripted.requests.find(({ head }) => head.includes('/slow'))!.socket.write(ok('late'))
    assert.equal(bodyOf(await slow.over), 'late')
    await closing
    await until(() => scripted.open.size === 0)
  })

  it('right after a call lets the call finish, and right after an abort waits for nothing', async (t) => {
    const first = await pair(t, RESPONSE)
    const sent = send(first.upstream)
    await Promise.all([sent.over, first.upstream.close()])
    assert.ok(sent.received.ended)
    const second = await pair(t, {})
    const aborted = send(second.upstream)
    await until(() => second.scripted.requests.length === 1)
    aborted.call.abort()
    await second.upstream.close()
  })
})

describe('https', { skip: skipWithout('openssl') }, () => {
  const folder = temporaryDirectory({ after })
  const usual = getCACertificates()
  const read = (name: string): Buffer => readFileSync(join(folder, name))

  before(() => {
    const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' })
    const key = (name: string) => [
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:P-256',
      '-nodes',
      '-keyout',
      `${name}.key`,
    ]
    openssl('req', '-x509', ...key('ca'), '-out', 'ca.pem', '-subj', '/CN=Throw-away CA', '-days', '2')
    for (const [name, san] of [
      ['right', 'IP:127.0.0.1,DNS:localhost'],
      ['wrong', 'DNS:elsewhere.test,IP:192.0.2.1'],
    ] as const) {
      writeFileSync(join(folder, `${name}.ext`), `subjectAltName=${san}\n`)
      openssl('req', '-new', ...key(name), '-out', `${name}.csr`, '-subj', '/CN=127.0.0.1')
      const issue = [
        '-CA',
        'ca.pem',
        '-CAkey',
        'ca.key',
        '-CAcreateserial',
        '-days',
        '2',
        '-extfile',
        `${name}.ext`,
      ]
      openssl('x509', '-req', '-in', `${name}.csr`, '-out', `${name}.pem`, ...issue)
    }
  })
  after(() => setDefaultCACertificates(usual))

  const secure = (name: string): ScriptedOptions => ({
    ...RESPONSE,
    tls: { cert: read(`${name}.pem`), key: read(`${name}.key`) },
  })

  it('accepts a certificate of a trusted authority for the name or address of the upstream, and is kept alive', async (t) => {
    setDefaultCACertificates([...usual, read('ca.pem').toString()])
    const { scripted, upstream } = await pair(t, secure('right'))
    // The caller's Host does not matter to the connection. Another Host neither breaks nor replaces it.
    for (const host of ['a.test', 'b.test', 'elsewhere.test']) {
      assert.equal(bodyOf(await send(upstream, { headers: ['host', host] }).over), 'x')
    }
    assert.equal(scripted.connections, 1)
    const byName = upstreamsTo([`https://localhost:${new URL(scripted.url).port}`])
    const received = await send(byName).over
    assert.equal(bodyOf(received), 'x')
    await byName.close()
  })

  it('resumes the session of the connection before', async (t) => {
    setDefaultCACertificates([...usual, read('ca.pem').toString()])
    const resumed: boolean[] = []
    const { upstream } = await pair(t, {
      ...secure('right'),
      onConnection: (socket) => void resumed.push((socket as TLSSocket).isSessionReused()),
      onRequest: ({ socket }) => socket.end(ok('x', 'Connection: close\r\n')),
    })
    for (let i = 0; i < 3; i++) assert.equal(bodyOf(await send(upstream).over), 'x')
    assert.deepEqual(resumed, [false, true, true])
  })

  it('with a certificate for another name is an unreachable fault, whatever Host the caller names', async (t) => {
    setDefaultCACertificates([...usual, read('ca.pem').toString()])
    const { scripted, upstream } = await pair(t, secure('wrong'))
    const received = await send(upstream, { headers: ['host', 'elsewhere.test'] }).over
    assert.equal(received.fault?.kind, 'unreachable')
    assert.match(received.fault!.cause, /altnames/)
    assert.equal(scripted.received, '')
  })

  it('with a certificate of an unknown authority is an unreachable fault, even with NODE_TLS_REJECT_UNAUTHORIZED=0', async (t) => {
    setDefaultCACertificates(usual)
    const { scripted, upstream } = await pair(t, secure('right'))
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
    const received = await send(upstream).over
    delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
    assert.equal(received.fault?.kind, 'unreachable')
    assert.match(received.fault!.cause, /certificate/)
    assert.equal(scripted.received, '')
  })

  it('with an upstream that never completes the handshake is a timeout fault within connectMs', async (t) => {
    const silent = createServer().listen(0, '127.0.0.1')
    t.after(() => silent.close())
    await until(() => silent.listening)
    let open = 0
    silent.on('connection', (socket) => {
      open += 1
      socket.on('error', () => {})
      socket.on('close', () => {
        open -= 1
      })
      socket.resume()
    })
    const { port } = silent.address() as { port: number }
    const health: boolean[] = []
    const upstream = upstreamsTo([`https://127.0.0.1:${port}`], {
      connectMs: 50,
      onHealth: (_, healthy) => health.push(healthy),
    })
    const startedAt = performance.now()
    const received = await send(upstream, { method: 'POST' }).over
    assert.ok(performance.now() - startedAt >= 49)
    assert.equal(received.fault?.kind, 'timeout')
    assert.match(received.fault!.cause, /no connection within 50 ms/)
    assert.deepEqual(health, [false])
    await until(() => open === 0)
    await upstream.close()
  })

  it('aborted by the caller while connecting does not make the upstream unhealthy', async (t) => {
    const silent = createServer().listen(0, '127.0.0.1')
    t.after(() => silent.close())
    await until(() => silent.listening)
    let open = 0
    silent.on('connection', (socket) => {
      open += 1
      socket.on('error', () => {})
      socket.resume()
      socket.on('close', () => {
        open -= 1
      })
    })
    const health: boolean[] = []
    const { port } = silent.address() as { port: number }
    const upstream = upstreamsTo([`https://127.0.0.1:${port}`], {
      // Longer than any wait of this test, so the abort closes the connection.
      connectMs: 120_000,
      onHealth: (_, healthy) => health.push(healthy),
    })
    const { call } = send(upstream)
    await until(() => open === 1)
    call.abort()
    await until(() => open === 0)
    assert.deepEqual(health, [])
    await upstream.close()
  })
})
