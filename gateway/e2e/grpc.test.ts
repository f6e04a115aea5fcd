import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import {
  connect as connectHttp2,
  constants,
  createServer,
  type Http2Server,
  type ServerHttp2Stream,
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { credentials, Metadata, ServerCredentials, type ServiceError, status } from '@grpc/grpc-js'
import { sendBytes } from './client.ts'
import { type Note, type NoteClient, noteClient, type Seen, startService } from './grpc-service.ts'
import { commonGateway, startGateway, type TestGateway, until } from './running-gateway.ts'
import { makeTlsSetup, type TlsSetup } from './secure.ts'

const METHODS = '/demo.Notes'

interface Finished {
  readonly reply: Note | undefined
  readonly error: ServiceError | undefined
  readonly head: Metadata | undefined
  readonly trailers: Metadata | undefined
}

async function callOne(client: NoteClient, text: string, metadata = new Metadata(), options = {}) {
  const { promise, resolve } = Promise.withResolvers<Finished>()
  let head: Metadata | undefined
  let trailers: Metadata | undefined
  let outcome: Pick<Finished, 'reply' | 'error'> | undefined
  const finish = () => {
    if (outcome !== undefined && trailers !== undefined) resolve({ ...outcome, head, trailers })
  }
  const call = client.one({ text }, metadata, options, (error, reply) => {
    outcome = { error: error ?? undefined, reply }
    finish()
  })
  call.on('metadata', (received: Metadata) => {
    head = received
  })
  call.on('status', (received: { metadata: Metadata }) => {
    trailers = received.metadata
    finish()
  })
  return promise
}

for (const secure of [false, true]) {
  describe(`gRPC ${secure ? 'over TLS both ways' : 'with prior knowledge both ways'}`, () => {
    const seen: Seen = { metadata: [], cancelled: [] }
    let tls: TlsSetup
    let gateway: TestGateway
    let client: NoteClient
    let service: Awaited<ReturnType<typeof startService>>

    before(async () => {
      tls = await makeTlsSetup()
      const { certPem, keyPem } = tls.server
      const pair = { cert_chain: Buffer.from(certPem), private_key: Buffer.from(keyPem) }
      service = await startService(seen, secure ? ServerCredentials.createSsl(null, [pair]) : undefined)
      const target = `${secure ? 'h2' : 'h2c'}://127.0.0.1:${service.port}`
      const caFile = tls.write('service-ca.pem', tls.ca.certPem)
      gateway = await startGateway({
        config: {
          http2: true,
          jwksUri: 'http://127.0.0.1:1/keys',
          upstreams: { notes: { targets: [target], ...(secure ? { tls: { caFile } } : {}) } },
          maxBodyBytes: 16_000_000,
          timeouts: { bodyGraceMs: 1000 },
          routes: [
            { path: `${METHODS}/*`, auth: ['none'], upstream: 'notes', methods: ['POST'] },
            { path: '/own.Notes/*', auth: ['bearer'], upstream: 'notes' },
            { path: '/other', auth: ['none'], upstream: 'notes' },
            { path: '/signed.Notes/*', auth: ['none'], upstream: 'notes', signatures: { upstream: true } },
          ],
          signing: { keyFile: tls.write('signing.pem', signingPem()), algorithm: 'ed25519' },
        },
        env: tls.env,
      })
      client = secure
        ? noteClient(`localhost:${gateway.tlsPort}`, credentials.createSsl(Buffer.from(tls.ca.certPem)))
        : noteClient(`127.0.0.1:${gateway.port}`, credentials.createInsecure())
    })
    after(async () => {
      client?.close()
      await gateway?.end()
      service?.stop()
    })

    it('passes a unary call, and metadata both ways', async () => {
      const metadata = new Metadata()
      metadata.set('x-mine', 'of the client')
      metadata.set('x-mine-bin', Buffer.from([0, 200, 255]))
      metadata.set('x-auth-subject', 'forged')
      const { reply, error, head, trailers } = await callOne(client, 'you', metadata)
      assert.deepEqual([reply, error], [{ text: 'hello you' }, undefined])
      assert.deepEqual(head?.get('x-head'), ['at the beginning'])
      assert.deepEqual(trailers?.get('x-trailer'), ['at the end'])
      const received = seen.metadata.at(-1)
      assert.deepEqual(received?.get('x-mine'), ['of the client'])
      assert.deepEqual(received?.get('x-mine-bin'), [Buffer.from([0, 200, 255])])
      assert.deepEqual(received?.get('x-auth-subject'), [])
      const [id] = head?.get('x-request-id') ?? []
      assert.deepEqual(head?.get('x-content-type-options'), ['nosniff'])
      const [asked, answered] = await gateway.pair(String(id))
      assert.deepEqual([asked.path, answered.statusCode, answered.grpcStatus], [`${METHODS}/One`, 200, 0])
    })

    it('passes streams of the client, of the service, and of both', async () => {
      const gathered = await new Promise<Note | undefined>((resolve, reject) => {
        const call = client.gather((error, note) => (error ? reject(error) : resolve(note)))
        for (const text of ['a', 'b', 'c']) call.write({ text })
        call.end()
      })
      assert.deepEqual(gathered, { text: 'abc' })
      const many: string[] = []
      for await (const note of client.many({ text: 'n' })) many.push(note.text)
      assert.deepEqual(many, ['n 0', 'n 1', 'n 2'])
      const talk = client.talk()
      for (const text of ['one', 'two', 'three']) {
        talk.write({ text })
        assert.deepEqual(await once(talk, 'data'), [{ text: `${text}!` }])
      }
      talk.end()
      const [ended] = await once(talk, 'status')
      assert.equal(ended.code, status.OK)
    })

    it('lets a client be silent for longer than bodyGraceMs allows other requests', async () => {
      const talk = client.talk()
      talk.write({ text: 'before' })
      await once(talk, 'data')
      const slow = 'POST /other HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n'
      assert.match(await sendBytes(gateway.port, slow), /^HTTP\/1.1 408 /)
      talk.write({ text: 'after' })
      assert.deepEqual(await once(talk, 'data'), [{ text: 'after!' }])
      talk.end()
      await once(talk, 'status')
    })

    it('passes large messages', async () => {
      const large = 'x'.repeat(10_000_000)
      const { reply, error } = await callOne(client, large)
      assert.equal(error, undefined)
      assert.equal(reply?.text.length, large.length + 6)
    })

    it('passes a status with its details, and drops trailers that clients must not see', async () => {
      const { error, trailers } = await callOne(client, 'fail')
      assert.deepEqual(
        [error?.code, error?.details],
        [status.FAILED_PRECONDITION, 'not possible: 100 % über'],
      )
      assert.deepEqual(trailers?.get('x-why-bin'), [Buffer.from([0, 1, 255])])
      assert.deepEqual(trailers?.get('server'), [])
      const [, { statusCode, grpcStatus }] = await gateway.pair(String(trailers?.get('x-request-id')[0]))
      assert.deepEqual([statusCode, grpcStatus], [200, status.FAILED_PRECONDITION])
      const sample = `gateway_grpc_calls_total{route="${METHODS}/*",code="9"}`
      assert.equal(await gateway.metric(sample), 1)
    })

    it('passes metadata with spaces around it, trimmed, in all directions', async () => {
      const metadata = new Metadata()
      metadata.set('x-mine', ' two words ')
      const { head, trailers, error } = await callOne(client, 'spaces', metadata)
      assert.deepEqual(seen.metadata.at(-1)?.get('x-mine'), ['two words'])
      assert.deepEqual(head?.get('x-head'), ['also here'])
      assert.deepEqual(trailers?.get('x-trailer'), ['and here'])
      assert.equal(error, undefined)
    })

    it('ends a call whose head is too large with RESOURCE_EXHAUSTED, and the next call passes', async () => {
      for (const chars of [20_000, 100_000]) {
        const metadata = new Metadata()
        metadata.set('x-mine', '~'.repeat(chars))
        assert.equal((await callOne(client, 'large', metadata)).error?.code, status.RESOURCE_EXHAUSTED)
      }
      const many = new Metadata()
      for (let i = 0; i < 120; i++) many.set(`x-${i}`, 'a')
      assert.equal((await callOne(client, 'many', many)).error?.code, status.RESOURCE_EXHAUSTED)
      assert.equal((await callOne(client, 'next')).error, undefined)
    })

    it('tells the service when the client cancels, or its deadline is over', async () => {
      const talk = client.talk()
      talk.on('error', () => {})
      talk.write({ text: 'first' })
      await once(talk, 'data')
      talk.cancel()
      await until(() => (seen.cancelled.includes('talk') ? true : undefined))
      await until(async () => {
        const { error } = await callOne(client, 'wait', undefined, { deadline: Date.now() + 300 })
        assert.equal(error?.code, status.DEADLINE_EXCEEDED)
        return seen.cancelled.includes('wait') ? true : undefined
      })
    })

    it('refuses a call with a gRPC status, and records the HTTP status too', async () => {
      const refused = await new Promise<ServiceError>((resolve) => {
        client.makeUnaryRequest(
          '/own.Notes/One',
          () => Buffer.alloc(0),
          () => undefined,
          {},
          (error) => resolve(error as ServiceError),
        )
      })
      assert.deepEqual(
        [refused.code, refused.details],
        [status.UNAUTHENTICATED, 'An access token is needed.'],
      )
      assert.match(String(refused.metadata.get('www-authenticate')[0]), /^Bearer/)
      assert.deepEqual(refused.metadata.get('x-frame-options'), ['DENY'])
      const [, answered] = await gateway.pair(String(refused.metadata.get('x-request-id')[0]))
      const { statusCode, path, grpcStatus } = answered
      assert.deepEqual([statusCode, path, grpcStatus], [401, '/own.Notes/One', status.UNAUTHENTICATED])
    })

    it('refuses a call on a row that signs requests to the service, before the client ends it', async () => {
      const bytes = (note: Note) => Buffer.from(note.text)
      const talk = client.makeBidiStreamRequest('/signed.Notes/Talk', bytes, () => undefined)
      talk.write({ text: 'one' })
      const [refused] = (await once(talk, 'error')) as [ServiceError]
      assert.equal(
        refused.details,
        'The body is needed whole here, but a call of gRPC may go on without an end.',
      )
      const [, { statusCode }] = await gateway.pair(String(refused.metadata.get('x-request-id')[0]))
      assert.equal(statusCode, 415)
    })
  })
}

const signingPem = () =>
  generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }) as string

describe('a gRPC client whose deadline ends at the gateway', () => {
  let gateway: TestGateway
  /** A service that ignores deadlines. */
  let service: Http2Server
  const cancelled = new Set<string>()

  before(async () => {
    service = createServer()
    service.on('stream', (stream: ServerHttp2Stream, { ':path': path = '' }) => {
      stream.on('error', () => {})
      stream.on('aborted', () => cancelled.add(path))
      stream.on('close', () => {
        if (stream.rstCode === constants.NGHTTP2_CANCEL) cancelled.add(path)
      })
      if (path !== '/a.B/Stream') return
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' })
      stream.write('first')
    })
    service.listen(0, '127.0.0.1')
    await once(service, 'listening')
    gateway = await commonGateway({
      config: {
        http2: true,
        upstream: `h2c://127.0.0.1:${(service.address() as AddressInfo).port}`,
        routes: [{ path: '/*', auth: ['none'] }],
      },
    })
  })
  after(() => service.close())

  /** Sends a call and reads its head and its trailers. */
  async function ask(path: string, headers: object) {
    const session = connectHttp2(gateway.url)
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    })
    let trailers: Record<string, unknown> = {}
    stream.on('trailers', (fields) => {
      trailers = fields
    })
    stream.end('a message')
    const [head] = await once(stream, 'response')
    stream.resume()
    await once(stream, 'close')
    session.close()
    return { head, trailers, code: stream.rstCode }
  }

  it('gets DEADLINE_EXCEEDED, in the head or in trailers', async () => {
    const unary = await ask('/a.B/Unary', { 'grpc-timeout': '1S' })
    assert.deepEqual(
      [unary.head[':status'], unary.head['grpc-status'], unary.head['content-type']],
      [200, '4', 'application/grpc'],
    )
    const [, answered] = await gateway.pair(unary.head['x-request-id'])
    assert.deepEqual([answered.statusCode, answered.grpcStatus], [504, 4])
    await until(() => (cancelled.has('/a.B/Unary') ? true : undefined))
    const streamed = await ask('/a.B/Stream', { 'grpc-timeout': '1000000u' })
    // On a slow machine the deadline may end before the head has come.
    const told = streamed.head['grpc-status'] ?? streamed.trailers['grpc-status']
    assert.deepEqual([told, streamed.code], ['4', 0])
  })

  it('gets problem+json when it does not speak gRPC', async () => {
    const { head } = await ask('/%zz', { 'content-type': 'application/json' })
    assert.deepEqual([head[':status'], head['content-type']], [400, 'application/problem+json'])
  })
})

describe('a gRPC service that is unavailable', () => {
  it('is in trail and metrics, and opens its circuit breaker after 20 failures in a row', async (t) => {
    const service = await startService({ metadata: [], cancelled: [] })
    const gateway = await commonGateway({
      config: {
        http2: true,
        upstreams: { notes: { targets: [`h2c://127.0.0.1:${service.port}`], breaker: { failures: 20 } } },
        routes: [{ path: `${METHODS}/*`, auth: ['none'], upstream: 'notes' }],
      },
    })
    const client = noteClient(`127.0.0.1:${gateway.port}`, credentials.createInsecure())
    t.after(() => {
      client.close()
      service.stop()
    })
    const opened = `gateway_upstream_breaker_opened_total{upstream="h2c://127.0.0.1:${service.port}"}`
    for (let calls = 1; calls <= 20; calls++) {
      assert.equal((await callOne(client, 'fail')).error?.code, status.FAILED_PRECONDITION)
      const { error } = await callOne(client, 'away')
      assert.deepEqual([error?.code, error?.details], [status.UNAVAILABLE, 'not now'])
      assert.equal(await gateway.metric(opened), 0)
    }
    for (let calls = 1; calls <= 20; calls++) await callOne(client, 'away')
    assert.equal(await gateway.metric(opened), 1)
    const { error, trailers } = await callOne(client, 'you')
    assert.equal(error?.code, status.UNAVAILABLE)
    const [, answered] = await gateway.pair(String(trailers?.get('x-request-id')[0]))
    assert.deepEqual([answered.statusCode, answered.grpcStatus], [503, status.UNAVAILABLE])
    assert.equal(await gateway.metric(`gateway_grpc_calls_total{route="${METHODS}/*",code="14"}`), 41)
  })
})
