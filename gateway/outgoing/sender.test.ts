import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { makeAuthority, makeCertificate, SERVER_AUTH } from '../tls/demo/throw-away-ca.ts'
import { createSender, type Receiver } from './sender.ts'

const LONG_MS = 60_000
const MAX_BYTES = 1000
const GET = { method: 'GET', headers: {} } as const
const good: RequestListener = (request, response) => {
  request.pipe(response.setHeader('x-kind', 'echo'))
}

test('a request is sent with its fields and body, and the response is given back whole', async (t) => {
  const { send } = await receiver(t, (request, response) => {
    response.writeHead(201, { 'x-sent': `${request.method} ${request.url} ${request.headers['x-own']}` })
    request.pipe(response)
  })
  const body = Buffer.from([0, 255, 1])
  const response = await send({ method: 'POST', headers: { 'X-Own': 'yes' }, body })
  assert.equal(response.statusCode, 201)
  assert.equal(response.headers['x-sent'], 'POST /path?query=1 yes')
  assert.deepEqual(response.body, body)
})

test('requests one after another use one connection', async (t) => {
  const { send, connections } = await receiver(t, good)
  for (let turn = 0; turn < 3; turn++) await send(GET)
  assert.equal(connections(), 1)
})

test('a connection that the receiver closed after a response is replaced', async (t) => {
  const { send, connections } = await receiver(t, (_request, response) => {
    response.setHeader('connection', 'close').end('once')
  })
  for (let turn = 0; turn < 3; turn++) assert.equal(String((await send(GET)).body), 'once')
  assert.equal(connections(), 3)
})

test('a redirect is a response like any other', async (t) => {
  const target = await receiver(t, good)
  const { send } = await receiver(t, (_request, response) => {
    response.writeHead(302, { location: target.url }).end()
  })
  assert.equal((await send(GET)).statusCode, 302)
  assert.equal(target.connections(), 0)
})

test('a body of exactly the most bytes is read, and one byte more is a fault that names the status', async (t) => {
  for (const head of [{}, { 'content-length': String(MAX_BYTES) }]) {
    const { send } = await receiver(t, (_request, response) => {
      response.writeHead(200, head).end('x'.repeat(MAX_BYTES))
    })
    assert.equal((await send(GET)).body.length, MAX_BYTES)
  }
  for (const head of [{}, { 'content-length': String(MAX_BYTES + 1) }]) {
    const { send } = await receiver(t, (_request, response) => {
      response.writeHead(500, head).end('x'.repeat(MAX_BYTES + 1))
    })
    await assert.rejects(send(GET), {
      message: 'the response with status 500 is longer than 1000 bytes',
      statusCode: 500,
    })
  }
})

test('an endless body is broken off', async (t) => {
  const closed = Promise.withResolvers<void>()
  const { send } = await receiver(t, (_request, response) => {
    response.once('close', closed.resolve)
    const pour = () => {
      while (!response.destroyed && response.write('x'.repeat(65_536)));
      response.once('drain', pour)
    }
    pour()
  })
  await assert.rejects(send(GET), /longer than 1000 bytes/)
  await closed.promise
})

test('a receiver that sends nothing, or only a part, is given up in time', async (t) => {
  const silent = await receiver(t, () => undefined, { timeoutMs: 50 })
  await assert.rejects(silent.send(GET), { message: 'no response in time', statusCode: undefined })
  const stalling = await receiver(t, (_request, response) => void response.write('{'))
  const timeout = new AbortController()
  t.mock.method(AbortSignal, 'timeout', () => timeout.signal)
  const elapse = () => setImmediate(() => timeout.abort(new DOMException('The time is over', 'TimeoutError')))
  subscribe('undici:request:headers', elapse)
  t.after(() => unsubscribe('undici:request:headers', elapse))
  await assert.rejects(stalling.send(GET), {
    message: 'the response with status 200 did not end in time',
    statusCode: 200,
  })
})

test('a caller that gives up ends the request, before the response and in the middle of it', async (t) => {
  for (const begin of [false, true]) {
    const caller = new AbortController()
    const closed = Promise.withResolvers<void>()
    const { send } = await receiver(t, (_request, response) => {
      response.once('close', closed.resolve)
      if (begin) response.write('{')
      caller.abort()
    })
    await assert.rejects(send({ ...GET, signal: caller.signal }), /aborted/)
    await closed.promise
    await assert.rejects(send({ ...GET, signal: caller.signal }), /aborted/)
  }
})

test('a request ends at its deadline, or with its caller, while a TLS handshake hangs', async (t) => {
  const silent = createTcpServer()
  const { port } = await listening(t, silent)
  const url = `https://localhost:${port}/`
  const caller = new AbortController()
  silent.once('connection', () => caller.abort())
  const patient = createSender({ url, timeoutMs: LONG_MS })
  await assert.rejects(patient({ ...GET, signal: caller.signal }), { message: 'This operation was aborted' })
  await assert.rejects(patient({ ...GET, signal: caller.signal }), { message: 'This operation was aborted' })
  await assert.rejects(createSender({ url, timeoutMs: 50 })(GET), { message: 'no response in time' })
})

test('a connection that is kept does not keep the process', { timeout: LONG_MS }, async (t) => {
  const { url } = await receiver(t, (_request, response) => {
    response.setHeader('keep-alive', 'timeout=600').end()
  })
  const script = `const { createSender } = await import(${JSON.stringify(new URL('./sender.ts', import.meta.url))})
    const { statusCode } = await createSender({ url: '${url}' })({ method: 'GET', headers: {} })
    process.exitCode = statusCode === 200 ? 7 : 1`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { stdio: 'inherit' })
  t.after(() => child.kill())
  assert.deepEqual(await once(child, 'exit'), [7, null])
})

test('a connection that ends too early is a fault', async (t) => {
  const before = await receiver(t, (request) => void request.socket.end())
  await assert.rejects(before.send(GET), { message: 'other side closed', statusCode: undefined })
  const within = await receiver(t, (_request, response) => {
    response.writeHead(200, { 'content-length': '100' })
    response.write('{', () => response.destroy())
  })
  await assert.rejects(within.send(GET), {
    message: 'the response with status 200 broke off: other side closed',
  })
})

test('what is no HTTP, and a change of protocol that nobody asked for, are faults', async (t) => {
  const garbage = await receiver(t, (request) => void request.socket.end('garbage\r\n\r\n'))
  await assert.rejects(garbage.send(GET), /does not match the HTTP\/1.1 protocol/)
  const upgrade = await receiver(t, (request) => {
    request.socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n')
  })
  await assert.rejects(upgrade.send(GET), /upgrade/)
})

test('an address where nobody listens, or a name without an address, is a fault that names it', async () => {
  const closed = createSender({ url: 'http://127.0.0.1:1/', timeoutMs: LONG_MS, maxResponseBytes: MAX_BYTES })
  await assert.rejects(closed(GET), { message: 'connect ECONNREFUSED 127.0.0.1:1' })
  const both = createSender({ url: 'http://localhost:1/', timeoutMs: LONG_MS, maxResponseBytes: MAX_BYTES })
  await assert.rejects(both(GET), /ECONNREFUSED/)
  const unknown = createSender({
    url: 'http://name.invalid/',
    timeoutMs: LONG_MS,
    maxResponseBytes: MAX_BYTES,
  })
  await assert.rejects(unknown(GET), /name\.invalid/)
})

test('a certificate is accepted from the authorities that are given, and from no other, whatever Node is told', async (t) => {
  const authority = await makeAuthority({ subject: 'CN=Root' })
  const { certPem, keyPem } = await makeCertificate({
    subject: 'CN=localhost',
    issuer: authority,
    san: [{ type: 'dns', value: 'localhost' }],
    extendedKeyUsages: [SERVER_AUTH],
  })
  const ca = authority.certPem
  const server = createSecureServer({ cert: certPem, key: keyPem }, good)
  const { port } = await listening(t, server)
  const url = `https://localhost:${port}/`
  const bounds = { timeoutMs: LONG_MS, maxResponseBytes: MAX_BYTES }
  assert.equal((await createSender({ url, ca, ...bounds })(GET)).statusCode, 200)
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  const stranger = createSender({ url, ...bounds })(GET)
  await assert.rejects(stranger, /certificate/).finally(() => delete process.env.NODE_TLS_REJECT_UNAUTHORIZED)
  const other = createSender({ url: `https://127.0.0.1:${port}/`, ca, ...bounds })
  await assert.rejects(other(GET), /does not match certificate's altnames/)
})

async function receiver(t: TestContext, answer: RequestListener, bounds: Partial<Receiver> = {}) {
  const server = createServer({ keepAliveTimeout: 0 }, answer)
  let connections = 0
  server.on('connection', () => connections++)
  const { port } = await listening(t, server)
  const url = `http://127.0.0.1:${port}/path?query=1`
  return {
    url,
    send: createSender({ url, timeoutMs: LONG_MS, maxResponseBytes: MAX_BYTES, ...bounds }),
    connections: () => connections,
  }
}

async function listening(t: TestContext, server: Server): Promise<AddressInfo> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket))
  server.listen(0)
  await once(server, 'listening')
  t.after(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return server.address() as AddressInfo
}
