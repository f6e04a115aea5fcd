import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { type ClientHttp2Session, connect, constants } from 'node:http2'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { calculateJwkThumbprint, exportJWK } from 'jose'
import { randomDPoPKeyPair } from 'openid-client'
import { Webhook } from 'standardwebhooks'
import { makeRevocationList } from '../tls/demo/throw-away-ca.ts'
import { contradicted, unpaired } from './audit-pairs.ts'
import { call } from './client.ts'
import { answered, ask, type Received } from './http2-client.ts'
import { ath, proof } from './proofs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { makeTlsSetup, secureOptions, type TlsSetup } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const SECRET = `whsec_${Buffer.from('a webhook secret of 32 bytes, ok').toString('base64')}`
const SAN = 'urn:test:bank-b'
/** The gateway's address as clients know it. */
const PUBLIC = 'https://api.bank.example'
const SESSIONS = 32

const ROUTES = [
  { path: '/bank', auth: ['mtls'] },
  { path: '/mine', auth: ['bearer'] },
  { path: '/hooks', methods: ['POST'], auth: ['hmac'] },
  { path: '/*', auth: ['none'] },
]
const LIMITS = [{ path: '/few', limit: 20, window: '1h', purpose: 'a test' }]
const CLIENTS = [
  { id: 'acme', hmac: { keyId: 'key_acme', secrets: [{ env: 'TEST_SECRET' }] } },
  { id: 'bank-b', mtls: { sanUri: SAN } },
]

function tally(responses: readonly Received[]): Record<number, number> {
  const counts: Record<number, number> = {}
  for (const { status } of responses) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

for (const durability of ['synced', 'buffered'])
  describe(`over HTTP/2, with durability ${durability}`, () => {
    let tls: TlsSetup
    let upstream: TestUpstream
    let gateway: TestGateway
    let sessions: ClientHttp2Session[]

    const open = (certificate?: Parameters<typeof secureOptions>[1]) =>
      connect(`https://localhost:${gateway.tlsPort}`, secureOptions(tls.ca, certificate))
    const onAll = (asked: Parameters<typeof ask>[1]) =>
      Promise.all(sessions.map((session) => ask(session, asked)))

    before(async () => {
      tls = await makeTlsSetup()
      upstream = await startUpstream()
      gateway = await startGateway({
        config: {
          upstream: upstream.url,
          http2: true,
          via: true,
          routes: ROUTES,
          trustedProxies: ['127.0.0.1'],
          dpop: { publicUrls: [PUBLIC] },
          authThrottle: { failures: 100, window: '1m' },
        },
        limits: LIMITS,
        clients: CLIENTS,
        env: { ...tls.env, TEST_SECRET: SECRET, GATEWAY_AUDIT_DURABILITY: durability },
      })
      sessions = Array.from({ length: SESSIONS }, () => open())
    })
    after(async () => {
      for (const session of sessions) session.destroy()
      upstream.close()
      assert.equal(await gateway.end(), 0)
      assert.deepEqual(unpaired(gateway.audit()), [])
    })

    it('forwards with the fields of a proxy, and names the hop', async () => {
      const headers = {
        Host: 'api.bank.example',
        'x-forwarded-for': '192.0.2.7',
        'x-request-id': 'forwarded-1',
      }
      const { status, body } = await ask(sessions[0] as ClientHttp2Session, { path: '/a', headers })
      const seen = JSON.parse(body).headers
      assert.equal(status, 200)
      assert.deepEqual(
        [seen.host, seen['x-forwarded-proto'], seen['x-forwarded-host'], seen['x-forwarded-for'], seen.via],
        ['api.bank.example', 'https', 'api.bank.example', '192.0.2.7, 127.0.0.1', '2 countersign'],
      )
      assert.deepEqual([seen['x-real-ip'], seen['x-request-id']], ['192.0.2.7', 'forwarded-1'])
      assert.equal((await gateway.pair('forwarded-1'))[0].ip, '192.0.2.7')
    })

    it('forwards a request that an empty frame ends as one without a body', async () => {
      const framing = async (method: string) => {
        const { status, body } = await ask(sessions[0] as ClientHttp2Session, {
          method,
          path: '/a',
          body: '',
        })
        const { headers } = JSON.parse(body)
        return [status, headers['transfer-encoding'], headers['content-length'], headers.connection]
      }
      for (const method of ['GET', 'DELETE', 'OPTIONS'])
        assert.deepEqual(await framing(method), [200, undefined, undefined, 'keep-alive'], method)
      for (const method of ['POST', 'PUT', 'PATCH'])
        assert.deepEqual(await framing(method), [200, undefined, '0', 'keep-alive'], method)
    })

    it('forwards a GET with or without a body, also when only the next packet shows which', async () => {
      const seen = async (late: string) => {
        const stream = (sessions[0] as ClientHttp2Session).request({ ':path': '/a' }, { endStream: false })
        await sleep(10)
        if (late === '') stream.end()
        else {
          stream.write(late)
          setTimeout(() => stream.end(), 10)
        }
        const { headers, body } = JSON.parse((await answered(stream)).body)
        return [headers['transfer-encoding'], body]
      }
      // On a busy machine the end may come later than the 50 ms that the gateway waits.
      await until(async () => (isDeepStrictEqual(await seen(''), [undefined, '']) ? true : undefined))
      assert.deepEqual(await seen('late'), ['chunked', 'late'])
    })

    it('counts a limit once for all streams and connections', async () => {
      const all = await Promise.all([onAll({ path: '/few' }), onAll({ path: '/few' })])
      assert.deepEqual(tally(all.flat()), { 200: 20, 429: 2 * SESSIONS - 20 })
      for (const { status, headers } of all.flat())
        if (status === 429) assert.ok(Number(headers['retry-after']) > 0)
    })

    it('knows a client by its certificate, on every stream, and refuses clients without one', async () => {
      const shown = open(await tls.client({ subject: 'CN=b', san: [{ type: 'url', value: SAN }] }))
      const all = await Promise.all(Array.from({ length: 5 }, () => ask(shown, { path: '/bank' })))
      assert.deepEqual(tally(all), { 200: 5 })
      const [request] = await gateway.pair(String(all[4]?.headers['x-request-id']))
      assert.equal(request.clientId, 'bank-b')
      shown.close()
      assert.deepEqual(tally(await onAll({ path: '/bank' })), { 401: SESSIONS })
    })

    it('refuses a client whose certificate is revoked meanwhile, on its open connection', async () => {
      const leaving = await tls.client({ subject: 'CN=b', san: [{ type: 'url', value: SAN }] })
      const shown = open(leaving)
      assert.equal((await ask(shown, { path: '/bank' })).status, 200)
      tls.write('crl.pem', await makeRevocationList(tls.ca, { revoked: [leaving] }))
      await until(async () => ((await ask(shown, { path: '/bank' })).status === 401 ? true : undefined))
      // The gateway closes this connection, so that the client can shake hands again.
      await until(() => (shown.closed ? true : undefined))
      const anew = open(leaving)
      assert.equal((await ask(anew, { path: '/bank' })).status, 401)
      assert.equal((await ask(anew, { path: '/open' })).status, 200)
      assert.equal(anew.closed, false)
      anew.close()
    })

    it('takes a DPoP proof for the authority and scheme of the request, and each proof once', async () => {
      const keys = await randomDPoPKeyPair('ES256')
      const jkt = await calculateJwkThumbprint(await exportJWK(keys.publicKey))
      const token = await upstream.issuer.token({ sid: 'bound', cnf: { jkt } })
      const proofFor = (htu: string) => proof(keys, { htm: 'GET', htu, ath: ath(token) })
      const withProof = (dpop: string) => ({
        path: '/mine',
        headers: { Host: 'api.bank.example', authorization: `DPoP ${token}`, dpop },
      })
      const copies = await onAll(withProof(await proofFor(`${PUBLIC}/mine`)))
      assert.deepEqual(tally(copies), { 200: 1, 401: SESSIONS - 1 })
      for (const htu of ['http://api.bank.example/mine', `${PUBLIC}/bank`, 'https://other.example/mine']) {
        const { status, body } = await ask(sessions[0] as ClientHttp2Session, withProof(await proofFor(htu)))
        assert.deepEqual([status, JSON.parse(body).code], [401, 'invalid_dpop_proof'], htu)
      }
    })

    it('verifies a webhook in any frames, and accepts each delivery once', async () => {
      // All copies have one time, because a copy with another time is another message.
      const at = new Date()
      const deliver = async (session: ClientHttp2Session, id: string, body: string, signed = body) => {
        const stream = session.request({
          ':method': 'POST',
          ':path': '/hooks',
          'x-api-key': 'key_acme',
          'webhook-id': id,
          'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
          'webhook-signature': new Webhook(SECRET).sign(id, at, signed),
        })
        const response = answered(stream)
        for (let from = 0; from < body.length; from += 1000) stream.write(body.slice(from, from + 1000))
        stream.end()
        return response
      }
      const long = JSON.stringify({ text: 'x'.repeat(100_000) })
      const [first] = sessions as [ClientHttp2Session]
      const { status, body } = await deliver(first, 'msg_long', long)
      assert.deepEqual([status, JSON.parse(body).body.length], [200, long.length])
      const copies = await Promise.all(sessions.map((session) => deliver(session, 'msg_many', '{"a":1}')))
      assert.deepEqual(tally(copies), { 200: 1, 409: SESSIONS - 1 })
      assert.equal((await deliver(first, 'msg_other', '{"a":1}', '{"a":2}')).status, 401)
    })

    it('has both records in the trail when the response is complete, unless the trail is buffered', async () => {
      for (const [at, session] of sessions.entries()) {
        const id = `durable-${at}`
        await ask(session, { path: '/a', headers: { 'x-request-id': id } })
        const isWritten = gateway.audit().filter(({ requestId }) => requestId === id).length === 2
        assert.ok(isWritten || durability === 'buffered')
        await gateway.pair(id)
      }
    })
  })

/** Longer than the old process needs for its last requests, even on a busy machine. */
const LONG_DRAIN_MS = 60_000

describe('a restart of a gateway with clients of HTTP/2', () => {
  let tls: TlsSetup
  let upstream: TestUpstream
  let gateway: TestGateway
  const held: ServerResponse[] = []

  before(async () => {
    tls = await makeTlsSetup()
    upstream = await startUpstream((req, res) => {
      if (req.url?.startsWith('/held')) held.push(res)
      else res.end('whole')
    })
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        http2: true,
        timeouts: { drainMs: LONG_DRAIN_MS },
        routes: [{ path: '/*', auth: ['none'] }],
      },
      env: tls.env,
    })
  })
  after(() => {
    upstream.close()
    gateway.kill()
  })

  const restart = async () => {
    const { restarted, text } = await gateway.restart()
    assert.ok(restarted, text)
  }
  const open = (secure: boolean) =>
    secure ? connect(`https://localhost:${gateway.tlsPort}`, secureOptions(tls.ca)) : connect(gateway.url)

  it('sends them GOAWAY, and finishes their streams', async () => {
    const before = held.length
    const clients = [false, true].map((secure, at) => {
      const session = open(secure)
      const goAway = once(session, 'goaway')
      const id = `under-way-${at}`
      const response = answered(session.request({ ':path': `/held/${at}`, 'x-request-id': id }))
      return { id, goAway, response }
    })
    await until(() => (held.length === before + clients.length ? true : undefined))
    await restart()
    for (const { goAway } of clients) assert.equal((await goAway)[0], constants.NGHTTP2_NO_ERROR)
    assert.equal((await call(`${gateway.url}/a`)).body, 'whole')
    for (const res of held.splice(0)) res.end('at last')
    for (const { response } of clients) assert.equal((await response).body, 'at last')
    await gateway.process.line(({ msg }) => msg === 'this process ends: a new one serves in its place')
    for (const { id } of clients) {
      const [, { statusCode, recovered }] = await gateway.pair(id)
      assert.deepEqual([statusCode, recovered], [200, undefined])
    }
  })

  it('loses no request of a client that sends again what GOAWAY leaves out', async () => {
    let over = false
    let asked = 0
    const seen = new Map<string, number>()
    const statusOf = new Map<string, number>()
    const count = (what: string) => seen.set(what, (seen.get(what) ?? 0) + 1)
    /** A client that, like browsers, sends requests again on a new connection if GOAWAY leaves them out. */
    const keeping = async (secure: boolean) => {
      let session = open(secure)
      session.on('error', () => {})
      for (let at = 0; !over; at++) {
        if (session.closed || session.destroyed) {
          session = open(secure)
          session.on('error', () => {})
        }
        const id = `keeping-${asked++}`
        const stream = session.request({ ':path': `/${at}`, 'x-request-id': id })
        const ended = once(stream, 'close').catch(() => {})
        await answered(stream).then(
          ({ status, body }) => {
            count(`${status} ${body}`)
            statusOf.set(id, status)
          },
          async () => {
            await ended
            count(stream.rstCode === constants.NGHTTP2_REFUSED_STREAM ? 'again' : `reset ${stream.rstCode}`)
          },
        )
      }
      session.destroy()
    }
    const clients = [false, true, false, true].map(keeping)
    try {
      await until(() => ((seen.get('200 whole') ?? 0) > 20 ? true : undefined))
      for (let i = 0; i < 2; i++) {
        await restart()
        const sofar = seen.get('200 whole') ?? 0
        await until(() => ((seen.get('200 whole') ?? 0) > sofar + 20 ? true : undefined))
      }
    } finally {
      over = true
    }
    await Promise.all(clients)
    seen.delete('again')
    assert.deepEqual([...seen.keys()], ['200 whole'])
    assert.deepEqual(contradicted(gateway.audit(), statusOf), [])
  })

  it('pairs all audit records', async () => {
    await until(() => (unpaired(gateway.audit()).length === 0 ? true : undefined))
  })
})
