import assert from 'node:assert/strict'
import { createHash, createHmac, randomBytes, randomUUID } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { startBeats } from './beats.ts'
import { call, type ReceivedResponse, statusOf } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'
import { headerOf, openWire, statuses } from './wire.ts'

const MIB = 1024 * 1024
const SECRET = secret('acme')
const OLD = secret('globex, before')
const NEW = secret('globex, after')
const PAYLOAD = '{"test": 2432232314}'
const MANDATORY = [
  'strict-transport-security',
  'x-content-type-options',
  'x-frame-options',
  'x-xss-protection',
  'cache-control',
  'x-request-id',
]

/** A secret of 32 bytes, by its seed the same in every run. */
function secret(seed: string): string {
  return `whsec_${createHash('sha256').update(seed).digest('base64')}`
}

/** Parts of a delivery. `headers` replace signed ones, and `signedBody` is signed in place of `body`. */
interface Delivery {
  readonly id?: string
  readonly atMs?: number
  readonly body?: string | Buffer
  readonly signedBody?: string | Buffer
  readonly secret?: string
  readonly key?: string
  readonly headers?: Readonly<Record<string, string | undefined>>
}

let sent = 0

function headersOf(delivery: Delivery): Record<string, string> {
  const id = delivery.id ?? `msg_${++sent}`
  const at = new Date(delivery.atMs ?? Date.now())
  const body = delivery.signedBody ?? delivery.body ?? PAYLOAD
  const headers = {
    'x-api-key': delivery.key ?? 'key_acme',
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': signatureOf(delivery.secret ?? SECRET, { id, at, body }),
    'content-type': 'application/json',
    ...delivery.headers,
  }
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined)) as Record<
    string,
    string
  >
}

/** Signs text by the standard's own library, and bytes by hand, because the library takes only text. */
function signatureOf(
  secret: string,
  { id, at, body }: { readonly id: string; readonly at: Date; readonly body: string | Buffer },
): string {
  if (typeof body === 'string') return new Webhook(secret).sign(id, at, body)
  const mac = createHmac('sha256', Buffer.from(secret.slice('whsec_'.length), 'base64'))
  return `v1,${mac
    .update(`${id}.${Math.floor(at.getTime() / 1000)}.`)
    .update(body)
    .digest('base64')}`
}

/** The delivery as the upstream got it. */
interface Got {
  readonly headers: Readonly<Record<string, string>>
  readonly bytes: number
  readonly sha256: string
}

function sha256(data: string | Buffer): string {
  return createHash('sha256').update(data).digest('hex')
}

const CLIENTS = [
  { id: 'acme', scopes: [], hmac: { keyId: 'key_acme', secrets: [{ env: 'ACME_WEBHOOK_SECRET' }] } },
  {
    id: 'globex',
    scopes: [],
    hmac: { keyId: 'key_globex', secrets: [{ env: 'GLOBEX_OLD' }, { env: 'GLOBEX_NEW' }] },
  },
]
const SECRETS = { ACME_WEBHOOK_SECRET: SECRET, GLOBEX_OLD: OLD, GLOBEX_NEW: NEW }

describe('a signed webhook', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  let reached = 0
  const config = {
    timeouts: { requestMs: 4000, requestHeadersMs: 4000 },
    routes: [
      { path: '/hooks/*', methods: ['POST'], auth: ['hmac'] },
      { path: '/small', auth: ['hmac'], maxBodyBytes: 100 },
      { path: '/large', auth: ['hmac'], maxBodyBytes: 4 * MIB },
      { path: '/either', auth: ['bearer', 'hmac'] },
    ],
  }

  before(async () => {
    upstream = await startUpstream((req, res) => {
      const chunks: Buffer[] = []
      req.on('data', (chunk: Buffer) => chunks.push(chunk))
      req.on('end', () => {
        reached++
        const body = Buffer.concat(chunks)
        res.end(JSON.stringify({ headers: req.headers, bytes: body.length, sha256: sha256(body) }))
      })
    })
    gateway = await startGateway({
      config: { ...config, upstream: upstream.url, authThrottle: { failures: 0 } },
      clients: CLIENTS,
      env: { ...SECRETS, GATEWAY_LOG_LEVEL: 'debug' },
    })
  })
  after(async () => {
    await gateway.end()
    upstream.close()
  })

  const deliver = (delivery: Delivery = {}, path = '/hooks/billing') =>
    call(gateway.url + path, {
      method: 'POST',
      headers: headersOf(delivery),
      body: delivery.body ?? PAYLOAD,
    })
  /** Asserts that the delivery was accepted, with exactly these bytes. */
  async function passes(response: ReceivedResponse, body: string | Buffer = PAYLOAD): Promise<Got> {
    assert.equal(response.status, 200, response.body)
    const got = response.json() as unknown as Got
    assert.equal(got.bytes, Buffer.byteLength(body))
    assert.equal(got.sha256, sha256(body))
    return got
  }
  const decisions = (outcome: string) => `gateway_auth_decisions_total{method="hmac",outcome="${outcome}"}`
  async function refuses(
    answering: () => Promise<ReceivedResponse>,
    {
      status = 401,
      code = 'invalid_signature',
      outcome,
    }: { status?: number; code?: string; outcome: string },
  ): Promise<ReceivedResponse> {
    const samples = [`gateway_refusals_total{code="${code}"}`, decisions(outcome)]
    const counted = () => Promise.all(samples.map((sample) => gateway.metric(sample)))
    const before = await counted()
    const reachedBefore = reached
    const response = await answering()
    assert.equal(response.status, status, response.body)
    assert.equal(response.json().code, code)
    for (const name of MANDATORY) {
      const names = response.rawHeaders.filter((text, i) => i % 2 === 0 && text.toLowerCase() === name)
      assert.equal(names.length, 1, name)
    }
    if (status === 401) assert.equal(response.headers['www-authenticate'], 'Webhook realm="api"')
    const pair = await gateway.pair(response.headers['x-request-id'] as string)
    assert.equal(pair[1].statusCode, status)
    // Only a replay has a proved client.
    assert.equal(pair[0].clientId, status === 409 ? 'acme' : undefined)
    assert.deepEqual(
      await counted(),
      before.map((count) => count + 1),
      samples.join(),
    )
    assert.equal(reached, reachedBefore)
    return response
  }

  describe('is accepted', () => {
    it('with the signature of the standard library, and its client is named in the trail and upstream', async () => {
      const before = await gateway.metric(decisions('accepted'))
      const response = await deliver({ id: 'msg_first', headers: { 'x-auth-client': 'globex' } })
      const { headers } = await passes(response)
      assert.equal(headers['x-auth-client'], 'acme')
      assert.equal(headers['x-auth-method'], 'hmac')
      assert.equal(headers['x-auth-subject'], undefined)
      assert.equal(headers['webhook-id'], 'msg_first')
      assert.equal(headers['content-type'], 'application/json')
      for (const record of await gateway.pair(response.headers['x-request-id'] as string)) {
        assert.equal(record.clientId, 'acme')
        assert.equal(record.userId, undefined)
      }
      assert.equal(await gateway.metric(decisions('accepted')), before + 1)
    })

    const bodies: readonly [string, string | Buffer][] = [
      ['nothing', ''],
      ['bytes that are not UTF-8', Buffer.from([0, 255, 13, 10, 195, 40, 0])],
      ['JSON with unusual spaces', '{ "a" :1,\r\n\t"b":  "\u00e9" }\n'],
      ['exactly 1 MiB', randomBytes(MIB)],
    ]
    for (const [what, body] of bodies) {
      it(`with a body of ${what}, which arrives upstream unchanged`, async () => {
        await passes(await deliver({ body }), body)
      })
    }

    it('in chunks, also when they are many and small', async () => {
      const body = randomBytes(3000)
      const response = await chunked(body, 7, headersOf({ body }))
      assert.equal(statusOf(response), 200, response)
      assert.match(response, new RegExp(sha256(body)))
    })

    it('with any secret of its key, so that secrets can be replaced', async () => {
      for (const one of [OLD, NEW]) {
        const { headers } = await passes(await deliver({ key: 'key_globex', secret: one }))
        assert.equal(headers['x-auth-client'], 'globex')
      }
      await refuses(() => deliver({ key: 'key_globex', secret: SECRET }), { outcome: 'mismatch' })
    })

    it('when one of several signatures is right, and other versions are ignored', async () => {
      const id = 'msg_several'
      const right = new Webhook(SECRET).sign(id, new Date(), PAYLOAD)
      const wrong = new Webhook(OLD).sign(id, new Date(), PAYLOAD)
      const asymmetric =
        'v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=='
      await passes(
        await deliver({ id, headers: { 'webhook-signature': `${wrong} ${asymmetric} ${right} v2,x` } }),
      )
      await refuses(() => deliver({ id: 'msg_v1a', headers: { 'webhook-signature': asymmetric } }), {
        outcome: 'unsupported',
      })
      // A good v1 signature under the name of another version.
      const renamed = () => {
        const headers = headersOf({ id: 'msg_renamed' })
        return { 'webhook-signature': (headers['webhook-signature'] as string).replace('v1,', 'v1a,') }
      }
      await refuses(() => deliver({ id: 'msg_renamed', headers: renamed() }), { outcome: 'unsupported' })
    })

    it('within five minutes before and after its time', async () => {
      for (const seconds of [-295, 295]) await passes(await deliver({ atMs: Date.now() + seconds * 1000 }))
    })

    it('on a route that takes bearer tokens too, unless a bad token comes with it', async () => {
      assert.equal((await deliver({}, '/either')).status, 200)
      const bad = await deliver({ headers: { authorization: 'Bearer x.y.z' } }, '/either')
      assert.equal(bad.json().code, 'invalid_token')
    })

    it('with Expect: 100-continue, which gets one 100', async () => {
      const body = randomBytes(5000)
      const wire = await openWire(gateway.port)
      wire.send(head({ ...headersOf({ body }), expect: '100-continue', 'content-length': '5000' }))
      await wire.has('HTTP/1.1 100 Continue\r\n\r\n')
      wire.send(body)
      const response = await wire.ended()
      assert.deepEqual(statuses(response), [100, 200])
      assert.match(response, new RegExp(sha256(body)))
      assert.doesNotMatch(response, /"expect"/)
    })

    it('on a kept connection, one after the other', async () => {
      const wire = await openWire(gateway.port)
      const one = (id: string) =>
        `${head({ ...headersOf({ id }), connection: 'keep-alive', 'content-length': String(PAYLOAD.length) })}${PAYLOAD}`
      wire.send(one('msg_pipe_1') + one('msg_pipe_2') + one('msg_pipe_1'))
      await until(() => (statuses(wire.received).length === 3 ? true : undefined))
      assert.deepEqual(statuses(wire.received), [200, 200, 409])
      wire.socket.destroy()
    })
  })

  describe('is refused', () => {
    const nowSeconds = () => Math.floor(Date.now() / 1000)
    const stamped = (seconds: number) => ({ atMs: (nowSeconds() + seconds) * 1000 })
    const cases: readonly [string, string, () => Delivery][] = [
      ['with a tampered body', 'mismatch', () => ({ body: '{"test": 2432232315}', signedBody: PAYLOAD })],
      ['with a byte more', 'mismatch', () => ({ body: `${PAYLOAD} `, signedBody: PAYLOAD })],
      ['with no body where one was signed', 'mismatch', () => ({ body: '', signedBody: PAYLOAD })],
      ['with a wrong secret', 'mismatch', () => ({ secret: OLD })],
      ['under the key of another client', 'mismatch', () => ({ key: 'key_globex' })],
      ['under an unknown key', 'unknown_key', () => ({ key: 'key_nobody' })],
      ['without webhook-id', 'missing', () => ({ headers: { 'webhook-id': undefined } })],
      ['without webhook-timestamp', 'missing', () => ({ headers: { 'webhook-timestamp': undefined } })],
      ['without webhook-signature', 'missing', () => ({ headers: { 'webhook-signature': undefined } })],
      ['with another id', 'mismatch', () => ({ headers: { 'webhook-id': 'msg_another' } })],
      [
        'with another time',
        'mismatch',
        () => ({ headers: { 'webhook-timestamp': String(nowSeconds() - 1) } }),
      ],
      ['too old', 'stale', () => stamped(-302)],
      ['too new', 'stale', () => stamped(302)],
      [
        'with a time in milliseconds',
        'stale',
        () => ({ headers: { 'webhook-timestamp': String(Date.now()).slice(0, 12) } }),
      ],
      ['with a malformed time', 'malformed', () => ({ headers: { 'webhook-timestamp': 'hello' } })],
      [
        'with a time in another spelling',
        'malformed',
        () => ({ headers: { 'webhook-timestamp': `0${nowSeconds()}` } }),
      ],
      ['with a full stop in its id', 'malformed', () => ({ id: 'msg.1' })],
      ['with a part of a signature', 'unsupported', () => part((text) => text.slice(0, 8))],
      ['with the version alone', 'unsupported', () => part(() => 'v1,')],
      ['with no version', 'unsupported', () => part((text) => text.slice(3))],
      [
        'with the signature in hexadecimal',
        'unsupported',
        () => part((text) => `v1,${Buffer.from(text.slice(3), 'base64').toString('hex')}`),
      ],
      ['with 33 signatures', 'malformed', () => part((text) => Array(33).fill(text).join(' '))],
    ]
    function part(change: (signature: string) => string): Delivery {
      const id = `msg_part_${++sent}`
      const { 'webhook-signature': whole } = headersOf({ id })
      return { id, headers: { 'webhook-signature': change(whole as string) } }
    }
    for (const [what, outcome, delivery] of cases) {
      it(`${what} (${outcome}), with the same sentence for each reason`, async () => {
        const response = await refuses(() => deliver(delivery()), { outcome })
        assert.equal(response.json().detail, 'The signature of the webhook is missing or not valid.')
        assert.equal(response.headers['retry-after'], undefined)
      })
    }

    it('without a key, and gets missing_credentials', async () => {
      const headers = { 'x-api-key': undefined }
      await refuses(() => deliver({ headers }), { code: 'missing_credentials', outcome: 'missing' })
    })

    it('with a repeated header, because it is unknown which one was signed', async () => {
      const fields = headersOf({ id: 'msg_twice' })
      for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature', 'x-api-key']) {
        const wire = await openWire(gateway.port)
        wire.send(
          head({ ...fields, [name.toUpperCase()]: fields[name] as string, 'content-length': '20' }) + PAYLOAD,
        )
        assert.match(await wire.ended(), /^HTTP\/1\.1 400 [\s\S]*"code":"invalid_header"/)
      }
      await passes(await deliver({ id: 'msg_twice' }))
    })

    it('for every modification of a tag in the HMAC-SHA256 set of Wycheproof, and a tag cut to 128 bits', async () => {
      for (const change of MODIFICATIONS) {
        const id = `msg_wycheproof_${++sent}`
        const seconds = String(nowSeconds())
        const tag = createHmac('sha256', Buffer.from(SECRET.slice(6), 'base64'))
          .update(`${id}.${seconds}.${PAYLOAD}`)
          .digest()
        const send = (bytes: Buffer) =>
          deliver({
            id,
            headers: { 'webhook-timestamp': seconds, 'webhook-signature': `v1,${bytes.toString('base64')}` },
          })
        const tags = [change(Buffer.from(tag)), change(Buffer.from(tag).subarray(0, 16)), tag.subarray(0, 16)]
        for (const bad of tags)
          assert.equal((await send(bad)).status, 401, `${change} ${bad.toString('hex')}`)
        await passes(await send(tag))
      }
    })
  })

  describe('with a body', () => {
    for (const path of ['/hooks/x', '/large']) {
      it(`of one byte more than 1 MiB is refused before any of it is read, at ${path}`, async () => {
        const wire = await openWire(gateway.port)
        const fields = { expect: '100-continue', 'content-length': String(MIB + 1) }
        wire.send(head({ ...headersOf({}), ...fields }, path))
        const response = await wire.ended()
        assert.deepEqual(statuses(response), [413])
        assert.match(response, /"code":"body_too_large"/)
        const large = await deliver({ body: randomBytes(MIB + 1) }, path)
        assert.equal(large.status, 413)
        assert.equal((await gateway.pair(large.headers['x-request-id'] as string))[1].statusCode, 413)
      })
    }

    it('in chunks that become more than 1 MiB, or more than the route takes, is refused', async () => {
      const before = await gateway.metric('gateway_refusals_total{code="body_too_large"}')
      const large = randomBytes(MIB + 1)
      const tooLarge = await chunked(large, 65_536, headersOf({ body: large }))
      assert.equal(statusOf(tooLarge), 413, tooLarge)
      const whole = randomBytes(MIB)
      assert.equal(statusOf(await chunked(whole, 65_536, headersOf({ body: whole }))), 200)
      const small = randomBytes(101)
      assert.equal(statusOf(await chunked(small, 50, headersOf({ body: small }), '/small')), 413)
      assert.equal((await deliver({ body: small }, '/small')).status, 413)
      assert.equal((await deliver({ body: small.subarray(1) }, '/small')).status, 200)
      assert.equal(await gateway.metric('gateway_refusals_total{code="body_too_large"}'), before + 3)
    })

    it('that does not come gets 408 with both records, and is not accepted, even if the rest comes later', async () => {
      const fields = headersOf({ id: 'msg_slow' })
      const wire = await openWire(gateway.port)
      wire.send(`${head({ ...fields, 'x-request-id': 'too-slow', 'content-length': '20' })}{"test"`)
      await wire.has(/^HTTP\/1\.1 408 /)
      // The gateway ignores bytes after the response, because the sender knows that the delivery failed.
      wire.send(PAYLOAD.slice(7))
      assert.deepEqual(statuses(await wire.ended()), [408])
      assert.equal((await gateway.pair('too-slow'))[1].statusCode, 408)
      await passes(await call(`${gateway.url}/hooks/x`, { method: 'POST', headers: fields, body: PAYLOAD }))
    })

    it('that the client breaks off is recorded as 499, and is not accepted', async () => {
      const fields = headersOf({ id: 'msg_gone' })
      for (const leave of ['resetAndDestroy', 'end'] as const) {
        const id = `gone-${leave}`
        const before = await gateway.metric('gateway_http_requests_in_flight')
        const wire = await openWire(gateway.port)
        wire.send(`${head({ ...fields, 'x-request-id': id, 'content-length': '20' })}{"test"`)
        await until(async () =>
          (await gateway.metric('gateway_http_requests_in_flight')) > before ? true : undefined,
        )
        wire.socket[leave]()
        assert.equal((await gateway.pair(id))[1].statusCode, 499)
      }
      await passes(await call(`${gateway.url}/hooks/x`, { method: 'POST', headers: fields, body: PAYLOAD }))
    })

    const inFlight = () => gateway.metric('gateway_http_requests_in_flight')

    /** Bodies of 1 MiB that never end. Only the bytes in `sent` have come of each. */
    interface Waiting {
      /** Begins again each body that got a response because it was late or lost its room. */
      renew(): Promise<void>
      /** Closes all connections. Resolves when no request is in flight. */
      leave(): Promise<void>
    }

    /** Resolves when the heads of all have come. */
    async function beginMany(localAddresses: readonly string[], sent: Buffer): Promise<Waiting> {
      const begin = async (localAddress: string) => {
        const wire = await openWire(gateway.port, { localAddress })
        const text = head({ ...headersOf({}), 'content-length': String(MIB) })
        wire.send(Buffer.concat([Buffer.from(text), sent]))
        return wire
      }
      const wires = await Promise.all(localAddresses.map(begin))
      const waiting = {
        renew: async () => {
          for (const [i, wire] of wires.entries()) {
            if (wire.received !== '' || wire.over !== undefined)
              wires[i] = await begin(localAddresses[i] as string)
          }
        },
        leave: async () => {
          for (const { socket } of wires) socket.destroy()
          await until(async () => ((await inFlight()) === 0 ? true : undefined))
        },
      }
      await until(async () => {
        await waiting.renew()
        return (await inFlight()) === wires.length ? true : undefined
      })
      return waiting
    }

    const deliverFrom = async (localAddress: string, id: string) => {
      const wire = await openWire(gateway.port, { localAddress })
      // A smaller body would come with its head, and needs no room.
      const body = PAYLOAD.padEnd(2000)
      const length = { connection: 'close', 'content-length': `${body.length}` }
      wire.send(`${head({ ...headersOf({ id, body }), ...length })}${body}`)
      return await wire.ended()
    }

    it('is accepted beside many other bodies of which only a byte has come', async () => {
      const addresses = Array.from({ length: 64 }, (_, i) => `127.0.0.${1 + (i % 8)}`)
      const waiting = await beginMany(addresses, Buffer.from('1'))
      assert.equal(statusOf(await deliverFrom('127.0.0.1', 'msg_beside')), 200)
      assert.equal(statusOf(await deliverFrom('127.0.0.99', 'msg_beside_too')), 200)
      await waiting.leave()
    })

    it('is refused for now beside 8 MiB that came from its address, but other addresses are served', async () => {
      const waiting = await beginMany(Array(8).fill('127.0.0.2'), Buffer.alloc(MIB - 1))
      const id = 'msg_later'
      const refused = await until(async () => {
        await waiting.renew()
        const response = await deliverFrom('127.0.0.2', `${id}_${randomUUID()}`)
        return statusOf(response) === 503 ? response : undefined
      })
      assert.match(refused, /"code":"overloaded"/)
      assert.equal(headerOf(refused, 'retry-after'), '1')
      assert.equal(statusOf(await deliverFrom('127.0.0.99', id)), 200)
      await waiting.leave()
      assert.equal(statusOf(await deliverFrom('127.0.0.2', `${id}_again`)), 200)
    })
  })

  describe('is accepted once', () => {
    it('and a copy gets 409, also with another signature added', async () => {
      const fields = headersOf({ id: 'msg_once' })
      const send = (more = {}) =>
        call(`${gateway.url}/hooks/x`, { method: 'POST', headers: { ...fields, ...more }, body: PAYLOAD })
      await passes(await send())
      const replayed = { status: 409, code: 'webhook_replayed', outcome: 'replayed' }
      await refuses(send, replayed)
      await refuses(() => send({ 'webhook-signature': `${fields['webhook-signature']} v1a,x` }), replayed)
      // The path is not signed, so another path does not make it another delivery.
      await refuses(() => deliver({ headers: fields }, '/hooks/elsewhere'), replayed)
      await refuses(() => deliver({ headers: fields }, '/either'), replayed)
    })

    it('when fifty copies come at the same time', async () => {
      const fields = headersOf({ id: 'msg_fifty' })
      const reachedBefore = reached
      const responses = await Promise.all(
        Array.from({ length: 50 }, () =>
          call(`${gateway.url}/hooks/x`, { method: 'POST', headers: fields, body: PAYLOAD }),
        ),
      )
      const count = (status: number) => responses.filter((response) => response.status === status).length
      assert.deepEqual([count(200), count(409)], [1, 49])
      assert.equal(reached, reachedBefore + 1)
    })

    it('but a newly signed retry passes, and so does the same id with another key', async () => {
      const atMs = Date.now()
      await passes(await deliver({ id: 'msg_retry', atMs }))
      await passes(await deliver({ id: 'msg_retry', atMs: atMs + 1000 }))
      await passes(await deliver({ id: 'msg_retry', atMs, key: 'key_globex', secret: NEW }))
    })

    it('also after a forgery with its id', async () => {
      const fields = headersOf({ id: 'msg_forged' })
      await refuses(
        () => call(`${gateway.url}/hooks/x`, { method: 'POST', headers: fields, body: 'forged' }),
        { outcome: 'mismatch' },
      )
      await passes(await call(`${gateway.url}/hooks/x`, { method: 'POST', headers: fields, body: PAYLOAD }))
    })
  })

  describe('has its keys edited live', () => {
    const file = 'gateway_config_last_reload_successful{file="clients.json"}'
    const changes = () => gateway.audit().filter(({ type }) => type === 'CONFIG_CHANGE')

    it('in force within a second: a new secret from a file is accepted, a removed one is refused', async () => {
      const place = join(gateway.dir, 'acme-secret')
      const next = secret('acme, next')
      writeFileSync(place, `${next}\n`)
      await refuses(() => deliver({ secret: next }), { outcome: 'mismatch' })
      const write = (secrets: object[]) => {
        const clients = [
          { id: 'acme', scopes: ['webhooks'], hmac: { keyId: 'key_acme', secrets } },
          CLIENTS[1],
        ]
        writeFileSync(`${gateway.clientsFile}.new`, JSON.stringify({ clients }))
        renameSync(`${gateway.clientsFile}.new`, gateway.clientsFile)
      }
      const beats = startBeats()
      write([{ env: 'ACME_WEBHOOK_SECRET' }, { file: place }])
      await until(async () => ((await deliver({ secret: next })).status === 200 ? true : undefined))
      assert.ok(beats.elapsedMs() < 1000)
      const { headers } = await passes(await deliver({}))
      assert.equal(headers['x-auth-scope'], 'webhooks')
      write([{ file: place }])
      await until(async () => ((await deliver({})).status === 401 ? true : undefined))
      await passes(await deliver({ secret: next }))
      writeFileSync(gateway.clientsFile, JSON.stringify({ clients: CLIENTS }))
      await until(async () => ((await deliver({})).status === 200 ? true : undefined))
      const record = changes().at(-1)
      assert.equal(changes().length, 3)
      assert.equal(record?.file, gateway.clientsFile)
      assert.deepEqual(record?.after, CLIENTS)
    })

    it('but not when the edit is bad: the last good keys stay, and log and metric say so', async () => {
      const good = readFileSync(gateway.clientsFile, 'utf8')
      const lines = gateway.process.lines.length
      const inline = [
        { id: 'acme', hmac: { keyId: 'key_acme', secrets: [secret('inline')] } },
        { id: 'b', hmac: { keyId: 'k', secrets: [{ env: 'NOT_SET' }] } },
      ]
      writeFileSync(gateway.clientsFile, JSON.stringify({ clients: inline }))
      await until(async () => ((await gateway.metric(file)) === 0 ? true : undefined))
      const line = await until(() => gateway.process.lines.slice(lines).find(({ level }) => level === 50))
      assert.equal(line.msg, 'the last good clients stay in force')
      assert.match(String(line.faults), /\$\.clients\[0\]\.hmac\.secrets\[0\]/)
      await passes(await deliver({}))
      writeFileSync(gateway.clientsFile, good)
      await until(async () => ((await gateway.metric(file)) === 1 ? true : undefined))
      assert.equal(changes().length, 3)
    })
  })

  it('leaves no secret and no signature in log, trail, metrics or data', async () => {
    const { 'webhook-signature': signature, ...rest } = headersOf({ id: 'msg_secret' })
    await deliver({ headers: { ...rest, 'webhook-signature': signature, 'webhook-id': 'msg_wrong' } })
    await passes(await deliver({ headers: { ...rest, 'webhook-signature': signature } }))
    const everything = [
      JSON.stringify(gateway.process.lines),
      gateway.process.plain(),
      readFileSync(gateway.auditFile, 'utf8'),
      (await call(`${gateway.adminUrl}/metrics`)).body,
      readFileSync(join(gateway.dir, 'data', 'webhooks.ndjson'), 'utf8'),
    ].join('\n')
    const all = [
      ...[SECRET, OLD, NEW, secret('inline'), secret('acme, next')].map((text) => text.slice(6)),
      signature?.slice(3),
    ]
    for (const text of all) {
      const bytes = Buffer.from(text as string, 'base64')
      for (const spelling of [bytes.toString('base64'), bytes.toString('base64url'), bytes.toString('hex')]) {
        assert.ok(!everything.includes(spelling))
        assert.ok(!everything.includes(spelling.slice(0, 20)))
      }
    }
    assert.deepEqual(
      gateway.process.lines.filter(({ msg }) => msg === 'a stage failed'),
      [],
    )
    assert.equal(await gateway.metric('gateway_http_requests_in_flight'), 0)
    // Without an HTTPS listener there is no metric of certificates.
    assert.ok(!everything.includes('gateway_tls_certificate_expiry'))
  })

  it('is refused as a replay also after kill -9, and guesses are throttled', async () => {
    const fields = headersOf({ id: 'msg_survives' })
    const send = (headers: Record<string, string>) =>
      call(`${gateway.url}/hooks/x`, { method: 'POST', headers, body: PAYLOAD })
    await passes(await send(fields))
    await gateway.end('SIGKILL')
    writeFileSync(join(gateway.dir, 'gateway.json'), JSON.stringify({ ...config, upstream: upstream.url }))
    gateway = await startGateway({ config: {}, dir: gateway.dir, env: SECRETS })
    assert.equal((await send(fields)).status, 409)
    await passes(await deliver({}))
    for (let failures = 0; failures < 20; failures++) {
      await refuses(() => deliver(failures % 2 === 0 ? { secret: OLD } : { key: 'key_nobody' }), {
        outcome: failures % 2 === 0 ? 'mismatch' : 'unknown_key',
      })
    }
    const throttled = { status: 429, code: 'too_many_failures', outcome: 'throttled' }
    const response = await refuses(() => deliver({}), throttled)
    assert.ok(Number(response.headers['retry-after']) > 0)
    const [, { clientId, claimedClientId, throttled: isThrottled }] = await gateway.pair(
      String(response.headers['x-request-id']),
    )
    assert.deepEqual([clientId, claimedClientId, isThrottled], [undefined, 'acme', true])
    await refuses(() => deliver({ key: 'key_nobody' }), throttled)
  })

  async function chunked(body: Buffer, size: number, headers: Record<string, string>, path = '/hooks/x') {
    const wire = await openWire(gateway.port)
    wire.send(head({ ...headers, 'transfer-encoding': 'chunked' }, path))
    for (let at = 0; at < body.length; at += size) {
      const piece = body.subarray(at, at + size)
      wire.send(Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]))
    }
    wire.send('0\r\n\r\n')
    return wire.ended()
  }
})

function head(headers: Readonly<Record<string, string>>, path = '/hooks/x'): string {
  const fields = { host: 'gateway', connection: 'close', ...headers }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return `POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n`
}

/** Changes of a right tag by which Wycheproof's hmac_sha256_test makes its invalid cases. */
const MODIFICATIONS: readonly ((tag: Buffer) => Buffer)[] = [
  ...[0, 1, 7, 8, 31, 32, 33, 63, 64, 71, 77, 80, 96, 97, 103, 120, 121, 126, 127, 248, 249, 254, 255].map(
    (bit) => flipped(bit),
  ),
  flipped(0, 64),
  flipped(31, 63),
  flipped(63, 127),
  (tag) => Buffer.from(tag.map((byte) => byte ^ 0xff)),
  (tag) => Buffer.alloc(tag.length, 0),
  (tag) => Buffer.alloc(tag.length, 0xff),
  (tag) => Buffer.from(tag.map((byte) => byte ^ 0x80)),
  (tag) => Buffer.from(tag.map((byte) => byte ^ 0x01)),
]

function flipped(...bits: number[]): (tag: Buffer) => Buffer {
  return (tag) =>
    Buffer.from(
      tag.map((byte, i) => bits.reduce((sum, bit) => (bit >> 3 === i ? sum ^ (1 << (bit & 7)) : sum), byte)),
    )
}
