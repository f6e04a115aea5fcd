import assert from 'node:assert/strict'
import {
  createPublicKey,
  webcrypto as crypto,
  generateKeyPairSync,
  type KeyObject,
  type webcrypto as Web,
} from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import {
  type RequestDescriptor,
  type ResponseDescriptor,
  type SignatureMessage,
  verifySignature,
  webcrypto,
} from 'http-message-sig'
import { digestOf, signMessage } from '../auth/signatures/signed-request.test-support.ts'
import { freshKey } from '../auth/tokens/issuer.test-support.ts'
import { call, type ReceivedResponse } from './client.ts'
import { ask } from './http2-client.ts'
import { LONGER } from './long-runs.ts'
import { describeWithPrograms } from './other-programs.ts'
import { commonGateway, type TestGateway, until } from './running-gateway.ts'
import { runTool } from './secure.ts'
import { type SeenRequest, startUpstream, type TestUpstream } from './test-upstream.ts'

const HOST = 'api.bank.example'
const ORIGIN = `https://${HOST}`
const JWKS = '/.well-known/gateway-jwks.json'
const BODY = '{"amount":"12.50"}'
const LONG = 1024 * 1024 + 1
const BANK = freshKey('bank-1')
const VERIFY = fileURLToPath(new URL('python-programs/verify_messages.py', import.meta.url))
const ALGORITHMS = {
  'ecdsa-p256-sha256': [
    { name: 'ECDSA', namedCurve: 'P-256' },
    () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  ],
  ed25519: ['Ed25519', () => generateKeyPairSync('ed25519')],
  'rsa-pss-sha512': [
    { name: 'RSA-PSS', hash: 'SHA-512' },
    () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ],
} as const
type Algorithm = keyof typeof ALGORITHMS
type Fields = RequestDescriptor['fields']
type Jwk = Web.JsonWebKey & { readonly kid: string }

const fieldsOf = (raw: readonly string[]): Fields =>
  raw.flatMap((name, at) => (at % 2 === 0 ? [{ name: name.toLowerCase(), value: raw[at + 1] ?? '' }] : []))
const fieldIn = (fields: Fields, name: string) => fields.find((field) => field.name === name)?.value
const isValid = (verified: Promise<unknown>) =>
  verified.then(
    () => true,
    () => false,
  )

/** Verifies with http-message-sig, by the keys that the gateway publishes. */
async function verify(
  message: SignatureMessage,
  keys: readonly Jwk[],
  algorithm: Algorithm,
  label = 'gateway',
) {
  return verifySignature(message, {
    label,
    policy: {
      algorithms: [algorithm],
      requiredComponents: [],
      requiredParameters: ['created', 'keyid', 'tag'],
      maxAge: 60,
    },
    resolveVerifier: async ({ parameters }) => {
      const jwk = keys.find(({ kid }) => kid === parameters.keyid)
      assert.ok(jwk, `no key ${parameters.keyid}`)
      const [form] = ALGORITHMS[algorithm]
      const key = await crypto.subtle.importKey('jwk', jwk, form, false, ['verify'])
      if (algorithm !== 'ecdsa-p256-sha256') return webcrypto.verifier(key)
      // The library has no verifier for ECDSA.
      const ecdsa = { name: 'ECDSA', hash: 'SHA-256' }
      const check = (data: Uint8Array, signature: Uint8Array) =>
        crypto.subtle.verify(ecdsa, key, Buffer.from(signature), Buffer.from(data))
      return { algorithm, verify: check }
    },
  })
}

const coveredBy = (verified: Awaited<ReturnType<typeof verify>>) =>
  verified.components.map(({ name, parameters }) => (parameters.req === true ? `${name};req` : name))

describe('messages that the gateway signs', () => {
  const directory = mkdtempSync(join(tmpdir(), 'countersign-signing-'))
  const file = (name: string) => join(directory, name)
  let upstream: TestUpstream
  let gateway: TestGateway
  let seen: SeenRequest[]
  let status = 200

  const keyFile = (name: string, key: KeyObject) => {
    const options = key.type === 'private' ? ({ type: 'pkcs8' } as const) : ({ type: 'spki' } as const)
    writeFileSync(file(name), key.export({ format: 'pem', ...options }))
    return file(name)
  }
  const config = (algorithm: Algorithm, more: object = {}) => ({
    upstream: upstream.url,
    http2: true,
    dpop: { publicUrls: [ORIGIN] },
    signing: { keyFile: file(`${algorithm}.pem`), algorithm, ...more },
    routes: [
      { path: '/pay', auth: ['bearer'], signatures: { response: true } },
      { path: '/proved', auth: ['bearer'], signatures: { request: 'required', response: true } },
      { path: '/once', auth: ['bearer'], signatures: { response: true }, idempotency: {} },
      { path: '/open', auth: ['none'], signatures: { response: true } },
      {
        path: '/service/*',
        auth: ['bearer', 'none'],
        maxBodyBytes: 2 * LONG,
        rewrite: { prefix: '/v2' },
        signatures: { upstream: true },
      },
      { path: JWKS, auth: ['none'] },
    ],
  })
  const clients = () => {
    writeFileSync(file('bank.json'), JSON.stringify({ keys: [BANK.jwk] }))
    return [{ id: 'bank', signature: { jwksFile: file('bank.json'), profile: 'fapi-2' } }]
  }
  const keysOf = async () => {
    const { status: code, body, headers } = await call(gateway.url + JWKS)
    assert.deepEqual([code, headers['content-type']], [200, 'application/jwk-set+json'])
    return (JSON.parse(body) as { keys: Jwk[] }).keys
  }
  const bearer = async () => ({
    authorization: `Bearer ${await upstream.issuer.token({ client_id: 'bank' })}`,
  })

  function descriptor(
    { status: code, rawHeaders }: Pick<ReceivedResponse, 'status' | 'rawHeaders'>,
    request: Partial<RequestDescriptor> = {},
  ): ResponseDescriptor {
    return {
      kind: 'response',
      status: code,
      fields: fieldsOf(rawHeaders),
      request: { kind: 'request', method: 'GET', targetUri: `${ORIGIN}/pay`, fields: [], ...request },
    }
  }

  before(async () => {
    upstream = await startUpstream((req, res) => {
      const chunks: Buffer[] = []
      req.on('data', (chunk: Buffer) => chunks.push(chunk))
      req.on('end', () => {
        const { method = '', url = '', headers, rawHeaders } = req
        const body = Buffer.concat(chunks).toString()
        seen.push({ method, url, headers, rawHeaders, body })
        // These fields are of another hop, so they must not reach the client.
        const fields = { Signature: 'gateway=:AA==:', 'Signature-Input': 'gateway=()', 'Content-Digest': 'x' }
        res.writeHead(status, { 'Content-Type': 'application/json', ...fields })
        if (url.includes('long')) for (let at = 0; at < LONG; at += 65_537) res.write(Buffer.alloc(65_537))
        res.end(status === 204 ? undefined : BODY)
      })
    })
    seen = []
    for (const [name, [, make]] of Object.entries(ALGORITHMS)) keyFile(`${name}.pem`, make().privateKey)
    gateway = await commonGateway({ config: config('ed25519'), clients: clients() })
    const headers = await bearer()
    await until(async () =>
      (await call(`${gateway.url}/pay`, { headers })).status === 200 ? true : undefined,
    )
  })
  after(async () => {
    upstream.close()
    rmSync(directory, { recursive: true })
  })

  it('are responses that http-message-sig verifies, with every algorithm, unless they are changed', async () => {
    for (const algorithm of Object.keys(ALGORITHMS) as Algorithm[]) {
      await gateway.become({ config: config(algorithm) })
      const keys = await keysOf()
      const response = await call(`${gateway.url}/open?a=%7E`, { headers: { host: HOST } })
      const message = descriptor(response, { targetUri: `${ORIGIN}/open?a=%7E` })
      const verified = await verify(message, keys, algorithm)
      assert.deepEqual(coveredBy(verified), ['@status', 'content-digest', '@method;req', '@target-uri;req'])
      assert.equal(verified.parameters.tag, 'fapi-2-response')
      assert.equal(response.headers['content-digest'], digestOf(response.body))
      const { request } = message as { request: RequestDescriptor }
      const changed = (name: string, value: string) =>
        message.fields.map((field) => (field.name === name ? { name, value } : field))
      const signature = String(response.headers.signature)
      for (const mutated of [
        { ...message, status: 201 },
        { ...message, fields: changed('content-digest', digestOf(`${BODY} `)) },
        {
          ...message,
          fields: changed(
            'signature',
            signature.replace(/:./, (two) => (two === ':A' ? ':B' : ':A')),
          ),
        },
        { ...message, request: { ...request, method: 'POST' } },
        { ...message, request: { ...request, targetUri: `${ORIGIN}/open?a=~` } },
      ])
        assert.equal(await isValid(verify(mutated, keys, algorithm)), false)
    }
    await gateway.become({ config: config('ed25519') })
  })

  it('cover the signature and digest of a signed request', async () => {
    const { authorization } = await bearer()
    const digest = digestOf(BODY)
    const components = [
      ['"@method"', 'POST'],
      ['"@target-uri"', `${ORIGIN}/proved`],
      ['"authorization"', authorization],
      ['"content-digest"', digest],
    ] as const
    const params = `;created=${Math.floor(Date.now() / 1000)};keyid="bank-1";tag="fapi-2-request"`
    const signed = signMessage(components, { key: BANK.privateKey, algorithm: 'ES256', params })
    const headers = { host: HOST, authorization, 'content-digest': digest, ...signed }
    const response = await call(`${gateway.url}/proved`, { method: 'POST', headers, body: BODY })
    assert.equal(response.status, 200, response.body)
    const [, { signature: recorded }] = await gateway.pair(String(response.headers['x-request-id']))
    const { label, input, value, digest: recordedDigest } = recorded as Record<string, string>
    assert.deepEqual(
      [response.headers['signature-input'], response.headers.signature, response.headers['content-digest']],
      [`${label}=${input}`, `${label}=:${value}:`, recordedDigest],
    )
    const fields = fieldsOf(Object.entries(headers).flat())
    const request = { method: 'POST', targetUri: `${ORIGIN}/proved`, fields }
    const keys = await keysOf()
    assert.deepEqual(coveredBy(await verify(descriptor(response, request), keys, 'ed25519')), [
      '@status',
      'content-digest',
      '@method;req',
      '@target-uri;req',
      'content-digest;req',
      'signature;req',
      'signature-input;req',
    ])
    for (const name of ['content-digest', 'signature', 'signature-input']) {
      const without = fields.map((field) => (field.name === name ? { name, value: 'sig=:AA==:' } : field))
      const message = descriptor(response, { ...request, fields: without })
      assert.equal(await isValid(verify(message, keys, 'ed25519')), false, name)
    }
  })

  it('are signed over HTTP/2 too', async () => {
    const over = connect(gateway.url)
    const { status: code, headers, body } = await ask(over, { path: '/open', headers: { Host: HOST } })
    over.close()
    const { ':status': _, ...fields } = headers
    const rawHeaders = Object.entries(fields).flatMap(([name, value]) => [name, String(value)])
    const message = descriptor({ status: code, rawHeaders }, { targetUri: `${ORIGIN}/open` })
    await verify(message, await keysOf(), 'ed25519')
    assert.equal(headers['content-digest'], digestOf(body))
  })

  it('have no digest where they have no body', async () => {
    const keys = await keysOf()
    for (const [method, code] of [
      ['HEAD', 200],
      ['GET', 204],
      ['GET', 304],
    ] as const) {
      status = code
      const response = await call(`${gateway.url}/pay`, {
        method,
        headers: { host: HOST, ...(await bearer()) },
      })
      status = 200
      assert.deepEqual([response.status, response.headers['content-digest']], [code, undefined])
      const verified = await verify(descriptor(response, { method }), keys, 'ed25519')
      assert.deepEqual(coveredBy(verified), ['@status', '@method;req', '@target-uri;req'])
    }
  })

  it('are unsigned beyond 1 MiB, but complete and counted', async () => {
    const unsigned = () => gateway.metric('gateway_responses_unsigned_total{route="/open"}')
    const before = await unsigned()
    const { headers, body } = await call(`${gateway.url}/open?long`, { headers: { host: HOST } })
    assert.equal(body, `${'\0'.repeat(Math.ceil(LONG / 65_537) * 65_537)}${BODY}`)
    assert.deepEqual(
      [headers.signature, headers['signature-input'], headers['content-digest']],
      [undefined, undefined, undefined],
    )
    assert.equal(await unsigned(), before + 1)
  })

  it('include refusals to a proved caller, but not to others', async () => {
    const keys = await keysOf()
    const headers = { host: HOST, 'idempotency-key': 'x'.repeat(300), ...(await bearer()) }
    const refused = await call(`${gateway.url}/once`, { method: 'POST', headers, body: BODY })
    assert.equal(refused.status, 400)
    const request = { method: 'POST', targetUri: `${ORIGIN}/once` }
    await verify(descriptor(refused, request), keys, 'ed25519')
    assert.equal(refused.headers['content-digest'], digestOf(refused.body))
    const unknown = await call(`${gateway.url}/once`, { method: 'POST', headers: { host: HOST }, body: BODY })
    assert.deepEqual([unknown.status, unknown.headers.signature], [401, undefined])
  })

  it('are signed again when an idempotency key replays a response', async () => {
    const headers = { host: HOST, 'idempotency-key': '"pay-1"', ...(await bearer()) }
    const keys = await keysOf()
    const send = () => call(`${gateway.url}/once`, { method: 'POST', headers, body: BODY })
    const reached = seen.length
    const [first, again] = [await send(), await send()]
    assert.deepEqual([seen.length, again.headers['idempotency-replayed']], [reached + 1, 'true'])
    for (const response of [first, again]) {
      const message = descriptor(response, { method: 'POST', targetUri: `${ORIGIN}/once` })
      await verify(message, keys, 'ed25519')
      assert.equal(response.headers['content-digest'], digestOf(response.body))
    }
  })

  describe('to the service', () => {
    const sent = async (
      headers: Readonly<Record<string, string>>,
      method = 'POST',
      body: string | undefined = BODY,
    ) => {
      const options = { method, headers: { host: HOST, ...headers }, ...(body !== undefined && { body }) }
      const response = await call(`${gateway.url}/service/a?b=%7E`, options)
      assert.equal(response.status, 200, response.body)
      return seen.at(-1) as SeenRequest
    }
    const asSeen = ({ method, url, rawHeaders }: SeenRequest): RequestDescriptor => ({
      kind: 'request',
      method,
      targetUri: `http://${HOST}${url}`,
      fields: fieldsOf(rawHeaders),
    })

    it('cover the caller and the body', async () => {
      const request = await sent(await bearer())
      const keys = await keysOf()
      const message = asSeen(request)
      assert.equal(request.url, '/v2/a?b=%7E')
      const verified = await verify(message, keys, 'ed25519')
      assert.deepEqual(coveredBy(verified), [
        '@method',
        '@target-uri',
        'authorization',
        'x-auth-client',
        'x-auth-method',
        'x-auth-scope',
        'x-auth-session',
        'x-auth-subject',
        'content-digest',
      ])
      assert.equal(verified.parameters.tag, 'gateway-request')
      assert.equal(fieldIn(message.fields, 'content-digest'), digestOf(BODY))
      for (const name of ['x-auth-subject', 'x-auth-scope', 'authorization', 'content-digest']) {
        const fields = message.fields.map((field) => (field.name === name ? { name, value: 'other' } : field))
        assert.equal(await isValid(verify({ ...message, fields }, keys, 'ed25519')), false, name)
      }
    })

    it('cover method and target of a request without caller and body', async () => {
      const verified = await verify(asSeen(await sent({}, 'GET', undefined)), await keysOf(), 'ed25519')
      assert.deepEqual(coveredBy(verified), ['@method', '@target-uri'])
    })

    it("keep the client's own signature, under another label", async () => {
      const own = { 'signature-input': 'gateway=("@method")', signature: 'gateway=:AA==:' }
      const digest = digestOf(BODY)
      const { fields } = asSeen(await sent({ ...own, 'content-digest': digest }))
      assert.deepEqual(
        fields.filter(({ name }) => name === 'content-digest').map(({ value }) => value),
        [digest],
      )
      const inputs = fields.filter(({ name }) => name === 'signature-input').map(({ value }) => value)
      assert.equal(inputs[0], own['signature-input'])
      const [label = ''] = String(inputs[1]).split('=')
      assert.match(label, /^gateway-[0-9a-f-]{36}$/)
      await verify(asSeen(seen.at(-1) as SeenRequest), await keysOf(), 'ed25519', label)
    })

    it('are not sent if the digest of the client is wrong, or the body longer than 1 MiB', async () => {
      const reached = seen.length
      for (const [headers, body, code] of [
        [{ 'content-digest': digestOf('other') }, BODY, 'digest_mismatch'],
        [{}, 'x'.repeat(LONG), 'body_too_large'],
      ] as const) {
        const options = { method: 'POST', headers: { host: HOST, ...headers }, body }
        const refused = await call(`${gateway.url}/service/a`, options)
        assert.equal(refused.json().code, code)
      }
      assert.equal(seen.length, reached)
    })
  })

  describeWithPrograms(
    {
      title: 'verified by http-message-signatures of PyPI',
      programs: ['http-message-signatures-python'],
      isListed: LONGER > 1,
    },
    (programs) => {
      it('are good with every algorithm, unless they are changed', async () => {
        for (const algorithm of Object.keys(ALGORITHMS) as Algorithm[]) {
          await gateway.become({ config: config(algorithm) })
          const jwks = (await keysOf()).map((jwk) => [
            jwk.kid,
            createPublicKey({ format: 'jwk', key: jwk }).export({ format: 'pem', type: 'spki' }),
          ])
          const headers = { host: HOST }
          const response = await call(`${gateway.url}/open?a=%7E`, { method: 'POST', headers, body: BODY })
          await call(`${gateway.url}/service/a`, { method: 'POST', headers, body: BODY })
          const { method, url, rawHeaders, body } = seen.at(-1) as SeenRequest
          const messages = [
            {
              ...{ tag: 'fapi-2-response', status_code: response.status, body: response.body },
              headers: fieldsOf(response.rawHeaders),
              request: { method: 'POST', url: `${ORIGIN}/open?a=%7E`, headers: [] },
            },
            {
              ...{ tag: 'gateway-request', method, body },
              ...{ url: `http://${HOST}${url}`, headers: fieldsOf(rawHeaders) },
            },
          ]
          const mutated = [
            { ...messages[0], status_code: 201 },
            ...messages.map((message) => ({ ...message, body: `${message.body} ` })),
            { ...messages[1], method: 'PUT' },
          ]
          const asked = {
            algorithm: algorithm.toUpperCase().replaceAll('-', '_'),
            keys: Object.fromEntries(jwks),
            messages: [...messages, ...mutated],
          }
          const python = programs['http-message-signatures-python']
          const { output } = await runTool(python, [VERIFY], JSON.stringify(asked))
          assert.match(output, /^\[true, true, false, false, false, false\]$/m)
        }
        await gateway.become({ config: config('ed25519') })
      })
    },
  )

  it('are verified with a new key once it is in force, and with the old one while it is published', async () => {
    const configFile = join(gateway.dir, 'gateway.json')
    const [old] = await keysOf()
    const next = generateKeyPairSync('ed25519').privateKey
    const edit = (signing: object) => {
      const written = JSON.parse(readFileSync(configFile, 'utf8'))
      writeFileSync(configFile, JSON.stringify({ ...written, signing: { ...written.signing, ...signing } }))
    }
    edit({ alsoPublish: [keyFile('next.pem', next)] })
    const [, published] = await until(async () => {
      const keys = await keysOf()
      return keys.length === 2 ? keys : undefined
    })
    const early = await call(`${gateway.url}/open`, { headers: { host: HOST } })
    edit({ keyFile: file('next.pem'), alsoPublish: [file('ed25519.pem')] })
    await until(async () => ((await keysOf())[0]?.kid === published?.kid ? true : undefined))
    const late = await call(`${gateway.url}/open`, { headers: { host: HOST } })
    const keys = await keysOf()
    assert.deepEqual([keys[1]?.kid, keys.some((key) => 'd' in key)], [old?.kid, false])
    const targetUri = `${ORIGIN}/open`
    for (const [response, kid] of [
      [early, old?.kid],
      [late, published?.kid],
    ] as const)
      assert.equal((await verify(descriptor(response, { targetUri }), keys, 'ed25519')).parameters.keyid, kid)
  })

  it('are signed with the new key when the key file is replaced', async () => {
    const { kid } = (await keysOf())[0] as Jwk
    const { keyFile: name } = JSON.parse(readFileSync(join(gateway.dir, 'gateway.json'), 'utf8')).signing
    writeFileSync(name, generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }))
    await until(async () => ((await keysOf())[0]?.kid === kid ? undefined : true))
  })

  it('have their keys at a path that allows only GET and HEAD', async () => {
    const head = await call(gateway.url + JWKS, { method: 'HEAD' })
    assert.deepEqual([head.status, Number(head.headers['content-length']) > 0, head.body], [200, true, ''])
    const posted = await call(gateway.url + JWKS, { method: 'POST', body: 'x' })
    assert.deepEqual([posted.status, posted.headers.allow], [405, 'GET, HEAD'])
  })
})
