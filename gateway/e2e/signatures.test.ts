import assert from 'node:assert/strict'
import {
  constants,
  createHash,
  createPrivateKey,
  createPublicKey,
  webcrypto as crypto,
  randomUUID,
  sign,
  verify,
  X509Certificate,
} from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { connect } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { createSignature, webcrypto } from 'http-message-sig'
import { FlattenedSign } from 'jose'
import { digestOf, signMessage } from '../auth/signatures/signed-request.test-support.ts'
import { freshKey, publicJwk, type SigningKey, signingKey } from '../auth/tokens/issuer.test-support.ts'
import type { TestIssuer } from '../testing/test-issuer.ts'
import { makeAuthority } from '../tls/demo/throw-away-ca.ts'
import { type Call, call, type ReceivedResponse, sendBytes, statusOf } from './client.ts'
import { ask } from './http2-client.ts'
import { LONGER } from './long-runs.ts'
import { describeWithPrograms } from './other-programs.ts'
import { commonGateway, startGateway, type TestGateway, until } from './running-gateway.ts'
import { runTool } from './secure.ts'
import { type SeenRequest, startUpstream, type TestUpstream } from './test-upstream.ts'

const HOST = 'api.bank.example'
const BODY = '{"amount":"12.50","to":"DE02120300000000202051"}'
const BANK = freshKey('bank-1')
const NEXT = freshKey('bank-2')
const SHOP = signingKey('EdDSA', { kid: 'shop-1' })
const UK = signingKey('PS256', { kid: 'uk-1' })
const SEAL = await makeAuthority({ subject: 'CN=Seal,O=TPP', rsaBits: 2048 })
const { raw: SEAL_DER, serialNumber } = new X509Certificate(SEAL.certPem)
const SEAL_KEY = createPrivateKey(SEAL.keyPem)
const SEAL_ID = `SN=${serialNumber},CA=CN=Seal,O=TPP`
const DIRECTORY = join(tmpdir(), `countersign-jwks-${process.pid}`)
const SCRIPT = fileURLToPath(new URL('python-programs/sign_request.py', import.meta.url))
const DESCRIBED = {
  components: ['@method', '@path', '@query-param;name="id"'],
  tag: 'shop',
  maxAge: '2m',
  algorithms: ['ed25519', 'EdDSA', 'rsa-pss-sha512'],
}

interface Signed {
  readonly method?: string
  readonly target?: string
  readonly body?: string
  readonly token?: string
  readonly by?: SigningKey
  readonly keyId?: string
  readonly nonce?: string
  readonly ageSeconds?: number
  readonly tag?: string
  readonly without?: string
  /** Default: the digest of the body. */
  readonly digest?: string
}

/** A call as a client makes it under fapi-2. */
function signedCall({
  by = BANK,
  keyId,
  ageSeconds = 0,
  ...signed
}: Signed = {}): Call & { readonly target: string } {
  const {
    method = 'POST',
    target = '/pay',
    body = method === 'GET' ? undefined : BODY,
    token,
    tag,
    nonce,
  } = signed
  const digest = body === undefined ? undefined : (signed.digest ?? digestOf(body))
  const components = [
    ['"@method"', method],
    ['"@target-uri"', `https://${HOST}${target}`],
    ...(token === undefined ? [] : [['"authorization"', `Bearer ${token}`]]),
    ...(digest === undefined ? [] : [['"content-digest"', digest]]),
  ] as [string, string][]
  const created = Math.floor(Date.now() / 1000) - ageSeconds
  const more = nonce === undefined ? '' : `;nonce="${nonce}"`
  const params = `;created=${created};keyid="${keyId ?? by.jwk.kid}"${more};tag="${tag ?? 'fapi-2-request'}"`
  const covered = components.filter(([name]) => name !== signed.without)
  return {
    method,
    target,
    headers: {
      host: HOST,
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(digest !== undefined && { 'content-digest': digest, 'content-type': 'application/json' }),
      ...signMessage(covered, { key: by.privateKey, algorithm: 'ES256', params }),
    },
    ...(body !== undefined && { body }),
  }
}

/** A call in the form of UK Open Banking. */
async function ukCall(target = '/pay') {
  const claim = (name: string) => `http://openbanking.org.uk/${name}`
  const header = {
    alg: 'PS256',
    kid: 'uk-1',
    [claim('iat')]: Math.floor(Date.now() / 1000),
    [claim('iss')]: 'org/app',
    [claim('tan')]: 'openbanking.org.uk',
    crit: ['iat', 'iss', 'tan'].map(claim),
  }
  const crit = Object.fromEntries(header.crit.map((name) => [name, true]))
  const { protected: encoded, signature } = await new FlattenedSign(Buffer.from(BODY))
    .setProtectedHeader(header)
    .sign(UK.privateKey, { crit })
  const headers = { host: HOST, 'x-jws-signature': `${encoded}..${signature}` }
  return { target, method: 'POST', headers, body: BODY }
}

/** A call in the form of the Berlin Group. */
function tppCall(target = '/pay') {
  const lines = {
    Digest: `SHA-256=${createHash('sha256').update(BODY).digest('base64')}`,
    'X-Request-ID': randomUUID(),
    Date: new Date().toUTCString(),
  }
  const text = Object.entries(lines)
    .map(([name, value]) => `${name.toLowerCase()}: ${value}`)
    .join('\n')
  const signature = sign('sha256', Buffer.from(text), SEAL_KEY).toString('base64')
  const Signature = `keyId="${SEAL_ID}",algorithm="rsa-sha256",headers="digest x-request-id date",signature="${signature}"`
  const certificate = { 'TPP-Signature-Certificate': SEAL_DER.toString('base64') }
  return { target, method: 'POST', headers: { host: HOST, ...lines, ...certificate, Signature }, body: BODY }
}

describe('requests with HTTP message signatures', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  let issuer: TestIssuer
  let keys: Server
  let published: readonly object[] = [BANK.jwk]
  let seen: SeenRequest[]

  before(async () => {
    upstream = await startUpstream()
    ;({ issuer, seen } = upstream)
    keys = createServer((_, response) => response.end(JSON.stringify({ keys: published }))).listen(
      0,
      '127.0.0.1',
    )
    await new Promise((resolve) => keys.once('listening', resolve))
    gateway = await commonGateway({
      config: {
        upstream: upstream.url,
        http2: true,
        dpop: { publicUrls: [`https://${HOST}`] },
        authThrottle: { failures: 0 },
        signing: { keyFile: keyFile(), algorithm: 'rsa-pss-sha512', iss: 'our-org' },
        routes: [
          { path: '/pay', auth: ['signature'], scopes: ['pay'] },
          { path: '/shop', auth: ['signature', 'none'] },
          { path: '/signed', auth: ['signature'], signatures: { response: true } },
          { path: '/both', auth: ['bearer'], signatures: { request: 'required' } },
          { path: '/watched', auth: ['signature'], mode: 'shadow' },
          { path: '/folder/*', auth: ['signature'] },
        ],
      },
      clients: [
        {
          id: 'bank',
          scopes: ['pay'],
          signature: {
            jwksUri: `http://127.0.0.1:${(keys.address() as AddressInfo).port}/jwks`,
            profile: 'fapi-2',
          },
        },
        { id: 'shop', signature: { jwksFile: jwksFile('shop', [SHOP.jwk]), profile: DESCRIBED } },
        {
          id: 'uk',
          scopes: ['pay'],
          signature: { jwksFile: jwksFile('uk', [UK.jwk]), profile: 'uk-jws', iss: 'org/app' },
        },
        {
          id: 'tpp',
          scopes: ['pay'],
          signature: {
            jwksFile: jwksFile('tpp', [
              publicJwk(SEAL_KEY, { kid: SEAL_ID, x5c: [SEAL_DER.toString('base64')] }),
            ]),
            profile: 'berlin-group',
          },
        },
      ],
    })
    await until(async () => ((await send(signedCall())).status === 200 ? true : undefined))
  })
  after(async () => {
    upstream.close()
    keys.close()
    rmSync(DIRECTORY, { recursive: true })
  })

  const send = ({ target, ...options }: Call & { readonly target: string }) =>
    call(gateway.url + target, options)
  const outcomes = (outcome: string) =>
    gateway.metric(`gateway_auth_decisions_total{method="signature",outcome="${outcome}"}`)

  async function refused(
    request: Call & { readonly target: string },
    code: string,
    outcome: string,
  ): Promise<ReceivedResponse> {
    const [before, reached] = [await outcomes(outcome), seen.length]
    const response = await send(request)
    assert.deepEqual([response.status, response.json().code], [401, code], response.body)
    assert.match(String(response.headers['www-authenticate']), /(^|, )Signature realm="api"/)
    assert.equal(await outcomes(outcome), before + 1)
    assert.equal(seen.length, reached)
    return response
  }

  it('are accepted once, from the client in clients.json, with the body unchanged', async () => {
    const request = signedCall()
    const response = await send(request)
    assert.equal(response.status, 200, response.body)
    const { headers, body } = seen.at(-1) as SeenRequest
    assert.deepEqual(
      [headers['x-auth-client'], headers['x-auth-method'], headers['x-auth-subject']],
      ['bank', 'signature', undefined],
    )
    assert.equal(body, BODY)
    for (const record of await gateway.pair(String(response.headers['x-request-id'])))
      assert.deepEqual([record.clientId, record.userId], ['bank', undefined])
    await refused(request, 'invalid_signature', 'replayed')
  })

  it('may use a nonce only once, whatever the signature', async () => {
    const nonce = randomUUID()
    assert.equal((await send(signedCall({ nonce }))).status, 200)
    await refused(signedCall({ nonce }), 'invalid_signature', 'replayed')
  })

  it('are verified with the target as sent, before it is normalised', async () => {
    assert.equal((await send(signedCall({ method: 'GET', target: '/folder//%41?x=%7E' }))).status, 200)
    assert.equal(seen.at(-1)?.url, '/folder/A?x=%7E')
    const request = signedCall({ method: 'GET', target: '/folder//%41?x=%7E' })
    await refused({ ...request, target: '/folder/A?x=%7E' }, 'invalid_signature', 'mismatch')
  })

  it('whose body does not fit the digest, or whose digest is not signed, are refused', async () => {
    await refused(
      { ...signedCall(), body: BODY.replace('12.50', '99.50') },
      'digest_mismatch',
      'digest_mismatch',
    )
    const bodiless = signedCall({ method: 'GET' })
    await refused(
      { ...bodiless, headers: { ...bodiless.headers, 'content-length': '1' }, body: 'x' },
      'invalid_signature',
      'uncovered',
    )
    const { detail } = (
      await refused(signedCall({ without: '"content-digest"' }), 'invalid_signature', 'uncovered')
    ).json()
    assert.equal(detail, 'The signature must cover "content-digest", because the request has a body.')
  })

  it('without a signature get Accept-Signature if the client is known', async () => {
    const { headers } = await refused({ target: '/pay', method: 'GET' }, 'missing_signature', 'missing')
    assert.equal(headers['accept-signature'], undefined)
    const authorization = `Bearer ${await issuer.token({ client_id: 'bank' })}`
    const known = await refused(
      { target: '/both', method: 'POST', headers: { authorization }, body: BODY },
      'missing_signature',
      'missing',
    )
    assert.equal(
      known.headers['accept-signature'],
      'sig=("@method" "@target-uri" "authorization" "content-digest");created;tag="fapi-2-request"',
    )
  })

  it('are refused if the signature covers too little, is old, early or missing, or has another tag', async () => {
    await refused(signedCall({ without: '"@target-uri"' }), 'invalid_signature', 'uncovered')
    await refused(signedCall({ tag: 'other' }), 'invalid_signature', 'uncovered')
    const old = await refused(signedCall({ ageSeconds: 75 }), 'invalid_signature', 'stale')
    assert.match(String(old.json().detail), /^The signature is 7\d s old; 60 s are allowed\.$/)
    const early = await refused(signedCall({ ageSeconds: -30 }), 'invalid_signature', 'stale')
    assert.match(
      String(early.json().detail),
      /^The signature is [23]\d s ahead of our clock; 10 s are allowed\.$/,
    )
    const { Signature: _, ...headers } = signedCall().headers as Record<string, string>
    await refused({ target: '/pay', method: 'POST', headers, body: BODY }, 'invalid_signature', 'malformed')
  })

  it('for another host, even one that also knows the client, are refused', async () => {
    const { headers, ...rest } = signedCall()
    await refused(
      { ...rest, headers: { ...headers, host: 'other.example' } },
      'invalid_signature',
      'mismatch',
    )
  })

  it('with the key or the key id of another client are refused', async () => {
    await refused(signedCall({ by: NEXT, keyId: 'bank-1' }), 'invalid_signature', 'mismatch')
    await refused(signedCall({ by: NEXT }), 'invalid_signature', 'unknown_key')
    await refused(signedCall({ keyId: 'shop-1' }), 'invalid_signature', 'uncovered')
  })

  it('with a token must be signed by the client that the token names', async () => {
    const tokenOf = (id: string) => issuer.token({ client_id: id })
    const token = await tokenOf('bank')
    assert.equal((await send(signedCall({ target: '/both', token }))).status, 200)
    assert.deepEqual(
      [seen.at(-1)?.headers['x-auth-method'], seen.at(-1)?.headers['x-auth-subject']],
      ['bearer', 'user-1'],
    )
    await refused(
      signedCall({ target: '/both', token: await tokenOf('shop') }),
      'invalid_signature',
      'unknown_key',
    )
    await refused(
      signedCall({ target: '/both', token: await tokenOf('nobody') }),
      'invalid_signature',
      'unknown_client',
    )
    await refused(
      signedCall({ target: '/both', token, without: '"authorization"' }),
      'invalid_signature',
      'uncovered',
    )
    const { headers, ...rest } = signedCall({ target: '/both', token })
    const other = { ...headers, authorization: `Bearer ${await tokenOf('bank')}` }
    await refused({ ...rest, headers: other }, 'invalid_signature', 'mismatch')
    const bare = await call(`${gateway.url}/both`, { headers: { host: HOST } })
    assert.deepEqual([bare.status, bare.json().code], [401, 'missing_token'])
  })

  it('with a newly published key of the client are accepted at once, beside a token', async () => {
    published = [BANK.jwk, NEXT.jwk]
    const token = await issuer.token({ client_id: 'bank' })
    // Keys are fetched once in ten seconds at most, and an earlier test may have caused a fetch.
    const request = () => send(signedCall({ target: '/both', token, by: NEXT }))
    await until(async () => ((await request()).status === 200 ? true : undefined))
  })

  it('pass in shadow mode with a bad signature, but without a caller', async () => {
    const { status } = await send({ ...signedCall({ target: '/watched' }), body: `${BODY} ` })
    assert.equal(status, 200)
    assert.deepEqual([seen.at(-1)?.headers['x-auth-client'], seen.at(-1)?.body], [undefined, `${BODY} `])
  })

  it('are verified over HTTP/2 too, with a body and without', async () => {
    const over = connect(gateway.url)
    for (const [request, status] of [
      [signedCall(), 200],
      [signedCall({ method: 'GET' }), 200],
      [signedCall({ target: '/folder//%41?x=%7E' }), 200],
      [{ ...signedCall(), body: `${BODY} ` }, 401],
      [{ ...signedCall(), target: '/pay?' }, 401],
    ] as const) {
      const { target, method = 'GET', headers, body } = request as Call & { readonly target: string }
      const { host: Host = '', ...others } = headers as Record<string, string>
      const asked = {
        method,
        path: target,
        headers: { Host, ...others },
        ...(body !== undefined && { body: String(body) }),
      }
      assert.equal((await ask(over, asked)).status, status, `${method} ${target}`)
    }
    over.close()
  })

  it('must have the digest of the body as transferred: chunked, encoded or empty', async () => {
    const coded = gzipSync(BODY).toString('latin1')
    const chunked = 'Transfer-Encoding: chunked'
    const inChunks = (...pieces: readonly string[]) =>
      `${[...pieces, ''].map((piece) => `${piece.length.toString(16)}\r\n${piece}`).join('\r\n')}\r\n`
    const trailers = `Content-Digest: ${digestOf('other')}\r\nX-Auth-Client: other\r\n\r\n`
    for (const [lines, bytes, status, of = BODY, method = 'POST'] of [
      [[chunked], inChunks(BODY.slice(0, 9), BODY.slice(9)), 200],
      [[chunked], inChunks(BODY).slice(0, -2) + trailers, 200],
      [[chunked], inChunks(BODY, ' '), 401],
      [[chunked], inChunks(), 401],
      [['Content-Length: 0'], '', 401],
      [[], '', 401],
      [['Content-Encoding: gzip', `Content-Length: ${coded.length}`], coded, 200, coded],
      [['Content-Encoding: gzip', `Content-Length: ${coded.length}`], coded, 401],
      [['Content-Length: 0'], '', 200, ''],
      [[], '', 200, ''],
      [[], '', 401, '', 'HEAD'],
    ] as const) {
      const digest = digestOf(Buffer.from(of, 'latin1'))
      const { headers = {}, target } = signedCall({ digest })
      const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
      const message = [`${method} ${target} HTTP/1.1`, ...head, ...lines, 'Connection: close', '', bytes]
      const response = await sendBytes(gateway.port, message.join('\r\n'))
      assert.equal(statusOf(response), status, `${lines} ${of === BODY} ${response}`)
      if (status === 200) assert.equal(seen.at(-1)?.headers['x-auth-client'], 'bank')
    }
  })

  it('with a repeated signature field are refused', async () => {
    const { headers = {} } = signedCall({ method: 'GET', target: '/shop?id=1' })
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
    const send = (extra: readonly string[]) =>
      sendBytes(
        gateway.port,
        ['GET /shop?id=1 HTTP/1.1', ...lines, ...extra, 'connection: close', '', ''].join('\r\n'),
      )
    for (const extra of [lines.at(-1), lines.at(-2)]) assert.equal(statusOf(await send([String(extra)])), 401)
  })

  it('in the form of UK Open Banking are accepted once, with the signed body', async () => {
    const request = await ukCall()
    const refusedWith = async (changes: object) => {
      const { status, headers: sent, body } = await send({ ...request, ...changes })
      assert.deepEqual([status, sent['www-authenticate']], [400, undefined], body)
      return JSON.parse(body).code
    }
    assert.equal(await refusedWith({ body: `${BODY} ` }), 'invalid_signature')
    assert.equal((await send(request)).status, 200)
    assert.deepEqual([seen.at(-1)?.headers['x-auth-client'], seen.at(-1)?.body], ['uk', BODY])
    assert.equal(await refusedWith({}), 'invalid_signature')
    const authorization = `Bearer ${await issuer.token({ client_id: 'uk' })}`
    const bare = { target: '/both', headers: { host: HOST, authorization } }
    assert.equal(await refusedWith(bare), 'missing_signature')
  })

  it('get responses that are signed in the form of their client', async () => {
    const key = createPublicKey(UK.privateKey)
    const byUk = await send(await ukCall('/signed'))
    const [header = '', , jws = ''] = String(byUk.headers['x-jws-signature']).split('.')
    const pss = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST }
    const text = Buffer.from(`${header}.${Buffer.from(byUk.body).toString('base64url')}`)
    assert.ok(verify('sha256', text, { key, ...pss }, Buffer.from(jws, 'base64url')))
    assert.equal(JSON.parse(String(Buffer.from(header, 'base64url'))).alg, 'PS256')
    assert.equal(byUk.headers['signature-input'], undefined)
    const byTpp = await send(tppCall('/signed'))
    const { digest, signature, 'x-request-id': id } = byTpp.headers
    assert.equal(digest, `SHA-256=${createHash('sha256').update(byTpp.body).digest('base64')}`)
    const [, value = ''] = /signature="(.*)"$/.exec(String(signature)) ?? []
    const lines = Buffer.from(`digest: ${digest}\nx-request-id: ${id}`)
    assert.ok(verify('sha256', lines, key, Buffer.from(value, 'base64')))
    const byBank = await send(signedCall({ target: '/signed' }))
    assert.match(String(byBank.headers['signature-input']), /tag="fapi-2-response"$/)
  })

  it('in the form of the Berlin Group are accepted once, with the signed headers and body', async () => {
    const request = tppCall()
    await refused({ ...request, body: `${BODY} ` }, 'digest_mismatch', 'digest_mismatch')
    assert.equal((await send(request)).status, 200)
    assert.deepEqual([seen.at(-1)?.headers['x-auth-client'], seen.at(-1)?.body], ['tpp', BODY])
    await refused(request, 'invalid_signature', 'replayed')
    const { headers } = tppCall()
    const other = { ...headers, 'X-Request-ID': randomUUID() }
    await refused({ ...request, headers: other }, 'invalid_signature', 'mismatch')
  })

  it('that http-message-sig signs by Ed25519 or RSA-PSS are accepted', async () => {
    const rsa = signingKey('PS512', { kid: 'shop-rsa' })
    const file = jwksFile('both', [SHOP.jwk, rsa.jwk])
    await gateway.become({
      config: {
        upstream: upstream.url,
        http2: true,
        dpop: { publicUrls: [`https://${HOST}`] },
        routes: [{ path: '/shop', auth: ['signature'] }],
      },
      clients: [{ id: 'shop', signature: { jwksFile: file, profile: DESCRIBED_BY_OTHERS } }],
    })
    for (const [key, algorithm] of [
      [SHOP, 'Ed25519'],
      [rsa, { name: 'RSA-PSS', hash: 'SHA-512' }],
    ] as const) {
      const pkcs8 = key.privateKey.export({ type: 'pkcs8', format: 'der' })
      const signer = webcrypto.signer(
        await crypto.subtle.importKey('pkcs8', pkcs8, algorithm, false, ['sign']),
      )
      const uri = `https://${HOST}/shop?id=7&x=a%20b`
      const fields = [
        { name: 'content-digest', value: digestOf(BODY) },
        { name: 'x-note', value: 'one' },
        { name: 'x-note', value: 'two' },
        { name: 'priority', value: 'u=1,   i' },
      ]
      const { signature, signatureInput } = await createSignature(
        { kind: 'request', method: 'POST', targetUri: uri, fields },
        {
          components: [
            '@method',
            '@target-uri',
            '@authority',
            '@scheme',
            '@path',
            '@query',
            'content-digest',
            'x-note',
            { name: 'priority', parameters: { key: 'u' } },
          ],
          parameters: {
            created: Math.floor(Date.now() / 1000),
            keyid: String(key.jwk.kid),
            alg: signer.algorithm,
            tag: 'shop',
            nonce: randomUUID(),
          },
          signer,
        },
      )
      const { status, body } = await call(`${gateway.url}/shop?id=7&x=a%20b`, {
        method: 'POST',
        headers: {
          host: HOST,
          'content-digest': digestOf(BODY),
          'x-note': ['one', 'two'],
          priority: 'u=1,   i',
          'signature-input': signatureInput,
          signature,
        },
        body: BODY,
      })
      assert.equal(status, 200, body)
    }
  })
})

const SUITE = {
  title: 'requests that http-message-signatures of PyPI signs',
  programs: ['http-message-signatures-python'],
  isListed: LONGER > 1,
} as const

describeWithPrograms(SUITE, (programs) => {
  it('are accepted, with each algorithm and component', async () => {
    const upstream = await startUpstream()
    const rsa = signingKey('PS512', { kid: 'shop-rsa' })
    const gateway = await startGateway({
      config: {
        upstream: upstream.url,
        dpop: { publicUrls: [`https://${HOST}`] },
        routes: [{ path: '/*', auth: ['signature'] }],
      },
      clients: [
        {
          id: 'bank',
          signature: { jwksFile: jwksFile('python', [BANK.jwk, SHOP.jwk, rsa.jwk]), profile: 'fapi-2' },
        },
      ],
    })
    for (const [{ privateKey, jwk }, algorithm, alg] of [
      [BANK, 'ECDSA_P256_SHA256', true],
      [BANK, 'ECDSA_P256_SHA256', false],
      [SHOP, 'ED25519', true],
      [SHOP, 'ED25519', false],
      [rsa, 'RSA_PSS_SHA512', true],
    ] as const) {
      const target = '/a//b%2Dc?x=1&caf%C3%A9=a+b%20c'
      const asked = {
        ...{
          method: 'POST',
          url: `https://${HOST}${target}`,
          body: BODY,
          algorithm,
          alg,
          tag: 'fapi-2-request',
        },
        headers: {
          Host: HOST,
          'X-Note': 'one, two',
          Priority: 'u=1,   i',
          'Content-Type': 'application/json',
        },
        key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
        keyid: jwk.kid,
        nonce: randomUUID(),
        components: [
          ...['@method', '@target-uri', '@authority', '@scheme', '@request-target', '@path', '@query'],
          ...[
            '"@query-param";name="caf%C3%A9"',
            'x-note',
            '"x-note";bs',
            '"priority";sf',
            '"priority";key="u"',
          ],
          'content-type',
        ],
      }
      const python = programs['http-message-signatures-python']
      const { status, output } = await runTool(python, [SCRIPT], JSON.stringify(asked))
      assert.equal(status, 0, output)
      const headers = JSON.parse(output)
      const response = await call(gateway.url + target, { method: 'POST', headers, body: BODY })
      assert.equal(response.status, 200, response.body)
      const other = await call(gateway.url + target, { method: 'POST', headers, body: `${BODY} ` })
      assert.equal(other.json().code, 'digest_mismatch')
    }
    await gateway.end()
    upstream.close()
    rmSync(DIRECTORY, { recursive: true })
  })
})

const DESCRIBED_BY_OTHERS = { ...DESCRIBED, components: ['@method', '@path', 'priority;key="u"'] }

function keyFile(): string {
  mkdirSync(DIRECTORY, { recursive: true })
  const file = join(DIRECTORY, 'signing.pem')
  writeFileSync(file, UK.privateKey.export({ type: 'pkcs8', format: 'pem' }))
  return file
}

function jwksFile(name: string, jwks: readonly object[]): string {
  mkdirSync(DIRECTORY, { recursive: true })
  const file = join(DIRECTORY, `${name}.jwks.json`)
  writeFileSync(file, JSON.stringify({ keys: jwks }))
  return file
}
