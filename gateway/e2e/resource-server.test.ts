import assert from 'node:assert/strict'
import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { connect } from 'node:tls'
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import { freePort } from '../../backend/testing/free-port.ts'
import { AUDIENCE, ISSUER } from '../testing/test-issuer.ts'
import type { Issued } from '../tls/demo/throw-away-ca.ts'
import { run } from './child-process.ts'
import type { ReceivedResponse } from './client.ts'
import { ath, proof } from './proofs.ts'
import { startGateway, type TestGateway } from './running-gateway.ts'
import { makeTlsSetup, secureCall, secureOptions, type TlsSetup } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const CONFIG = {
  profile: 'fapi',
  authThrottle: { failures: 0 },
  routes: [
    { path: '/accounts', auth: ['bearer'] },
    { path: '/admin', auth: ['bearer'], scopes: ['admin'] },
    { path: '/logout', auth: ['bearer'] },
  ],
}

/** The FAPI 2.0 Security Profile's rules for a resource server, each tested with a gateway set up by the profile. */
describe('FAPI 2.0 resource server', () => {
  let tls: TlsSetup
  let upstream: TestUpstream
  let keys: Server
  let gateway: TestGateway
  let certificate: Issued
  let published: object[]
  let port: number
  const pair = generateKeyPair('ES256', { extractable: true })
  const dpopPair = generateKeyPair('ES256', { extractable: true })
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })

  before(async () => {
    tls = await makeTlsSetup()
    certificate = await tls.client({ subject: 'CN=client' })
    const { publicKey } = await pair
    const own = { ...(await exportJWK(publicKey)), kid: 'own', alg: 'ES256', use: 'sig' }
    const other = await generateKeyPair('ES256')
    published = [
      own,
      { ...rsa.publicKey.export({ format: 'jwk' }), kid: 'rsa', use: 'sig' },
      { ...own, kid: 'twice' },
      { ...(await exportJWK(other.publicKey)), kid: 'twice', alg: 'ES256', use: 'sig' },
    ]
    upstream = await startUpstream((req, res) => {
      if (req.url === '/logout') res.setHeader('x-revoke-session', 'session-gone')
      res.setHeader('content-type', 'application/json')
      res.end(JSON.stringify({ url: req.url }))
      upstream.seen.push({ method: 'GET', url: req.url ?? '', headers: {}, rawHeaders: [], body: '' })
    })
    keys = createServer({ cert: tls.server.certPem, key: tls.server.keyPem }, (_req, res) => {
      res.setHeader('content-type', 'application/json')
      res.end(JSON.stringify({ keys: published }))
    }).listen(0, '127.0.0.1')
    await once(keys, 'listening')
    port = await freePort()
    gateway = await startGateway({
      config: { ...CONFIG, dpop: { publicUrls: [`https://localhost:${port}`] } },
      env: {
        ...tls.env,
        GATEWAY_TLS_PORT: String(port),
        GATEWAY_UPSTREAM: upstream.url,
        GATEWAY_JWKS_URI: `https://localhost:${(keys.address() as AddressInfo).port}/jwks.json`,
        NODE_EXTRA_CA_CERTS: tls.env.GATEWAY_TLS_CLIENT_CA ?? '',
      },
    })
  })
  after(async () => {
    await gateway?.end()
    keys?.close()
    upstream?.close()
  })

  const x5t = () =>
    createHash('sha256').update(Buffer.from(certificate.certificate.rawData)).digest('base64url')

  async function token(claims: JWTPayload = {}, kid = 'own'): Promise<string> {
    const nowSeconds = Math.floor(Date.now() / 1000)
    const payload = {
      iss: ISSUER,
      aud: AUDIENCE,
      sub: 'user-1',
      sid: 'session-1',
      jti: crypto.randomUUID(),
      client_id: 'app',
      iat: nowSeconds,
      exp: nowSeconds + 600,
      cnf: { 'x5t#S256': x5t() },
      ...claims,
    }
    return new SignJWT(payload)
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid })
      .sign((await pair).privateKey)
  }

  const get = (authorization: string, more: { path?: string; dpop?: string; bare?: boolean } = {}) =>
    secureCall({
      port,
      path: more.path ?? '/accounts',
      ca: tls.ca,
      certificate: more.bare === true ? undefined : certificate,
      headers: { authorization, ...(more.dpop === undefined ? {} : { dpop: more.dpop }) },
    })

  function assertRefused(response: ReceivedResponse, status: number, error: string): void {
    assert.equal(response.status, status, response.body)
    assert.match(String(response.headers['www-authenticate']), new RegExp(`error="${error}"`))
  }

  it('section 5.2.1: speaks TLS 1.2 and newer, and nothing older', async () => {
    const speaks = async (version: 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3') => {
      const socket = connect({
        ...secureOptions(tls.ca),
        port,
        minVersion: version,
        maxVersion: version,
        // Otherwise this client itself would refuse.
        ciphers: 'DEFAULT@SECLEVEL=0',
      })
      const spoken = await once(socket, 'secureConnect').then(
        () => socket.getProtocol(),
        () => undefined,
      )
      socket.destroy()
      return spoken
    }
    assert.equal(await speaks('TLSv1.1'), undefined)
    assert.equal(await speaks('TLSv1.2'), 'TLSv1.2')
    assert.equal(await speaks('TLSv1.3'), 'TLSv1.3')
  })

  it('section 5.2.2: speaks in TLS 1.2 only the suites that BCP 195 recommends', async () => {
    const suite = async (ciphers: string) => {
      const socket = connect({ ...secureOptions(tls.ca), port, maxVersion: 'TLSv1.2', ciphers })
      const spoken = await once(socket, 'secureConnect').then(
        () => socket.getCipher().name,
        () => undefined,
      )
      socket.destroy()
      return spoken
    }
    assert.equal(await suite('ECDHE-ECDSA-AES128-GCM-SHA256'), 'ECDHE-ECDSA-AES128-GCM-SHA256')
    assert.equal(await suite('ECDHE-ECDSA-AES256-GCM-SHA384'), 'ECDHE-ECDSA-AES256-GCM-SHA384')
    assert.equal(await suite('ECDHE-ECDSA-AES128-SHA256'), undefined)
    assert.equal(await suite('ECDHE-ECDSA-CHACHA20-POLY1305'), undefined)
    assert.equal(await suite('ECDHE-ECDSA-AES128-SHA'), undefined)
  })

  it('section 5.3.4-1: takes a token from the header, as Bearer and as DPoP, however the scheme is written', async () => {
    const key = await dpopPair
    const jkt = await calculateJwkThumbprint(await exportJWK(key.publicKey))
    const bound = await token({ cnf: { jkt } })
    for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
      assert.equal((await get(`${scheme} ${await token()}`)).status, 200)
    }
    for (const scheme of ['DPoP', 'dpop', 'DPOP']) {
      const dpop = await proof(key, {
        htm: 'GET',
        htu: `https://localhost:${port}/accounts`,
        ath: ath(bound),
      })
      assert.equal((await get(`${scheme} ${bound}`, { dpop })).status, 200)
    }
  })

  it('section 5.3.4-2: takes no token from the query, also beside a good one, and logs it nowhere', async () => {
    const stolen = await token()
    const from = upstream.seen.length
    assertRefused(
      await get(`Bearer ${stolen}`, { path: `/accounts?access_token=${stolen}` }),
      400,
      'invalid_request',
    )
    assert.equal(upstream.seen.length, from)
    const told = JSON.stringify([gateway.audit(), gateway.process.lines, gateway.process.plain()])
    assert.ok(!told.includes(stolen))
  })

  it('section 5.3.4-3: refuses a token that has expired, was changed or was revoked', async () => {
    const nowSeconds = Math.floor(Date.now() / 1000)
    const expired = await token({ iat: nowSeconds - 700, exp: nowSeconds - 100 })
    assertRefused(await get(`Bearer ${expired}`), 401, 'invalid_token')
    const [head = '', , signature = ''] = (await token()).split('.')
    const [, payload = ''] = (await token({ sub: 'somebody-else' })).split('.')
    assertRefused(await get(`Bearer ${head}.${payload}.${signature}`), 401, 'invalid_token')
    const ending = await token({ sid: 'session-gone' })
    assert.equal((await get(`Bearer ${ending}`)).status, 200)
    assert.equal((await get(`Bearer ${ending}`, { path: '/logout' })).status, 200)
    assertRefused(await get(`Bearer ${ending}`), 401, 'invalid_token')
  })

  it('section 5.3.4-4: refuses a token whose scopes do not suffice', async () => {
    const response = await get(`Bearer ${await token({ scope: 'accounts' })}`, { path: '/admin' })
    assertRefused(response, 403, 'insufficient_scope')
    assert.match(String(response.headers['www-authenticate']), /scope="admin"/)
    assert.equal((await get(`Bearer ${await token({ scope: 'admin' })}`, { path: '/admin' })).status, 200)
  })

  it('section 5.3.4-5: refuses an unbound token, and a bound one without its key or certificate', async () => {
    assertRefused(await get(`Bearer ${await token({ cnf: undefined })}`), 401, 'invalid_token')
    assertRefused(await get(`Bearer ${await token()}`, { bare: true }), 401, 'invalid_token')
    const jkt = await calculateJwkThumbprint(await exportJWK((await dpopPair).publicKey))
    assertRefused(await get(`Bearer ${await token({ cnf: { jkt } })}`), 401, 'invalid_token')
    assertRefused(await get(`DPoP ${await token({ cnf: { jkt } })}`), 401, 'invalid_dpop_proof')
  })

  it('section 5.4.1: refuses RS256 and "none", and takes PS256 with the same key', async () => {
    const [, payload = ''] = (await token()).split('.')
    const signed = (alg: 'RS256' | 'PS256') => {
      const header = Buffer.from(JSON.stringify({ alg, typ: 'at+jwt', kid: 'rsa' })).toString('base64url')
      const padding = alg === 'PS256' ? { padding: 6, saltLength: 32 } : {}
      const signature = sign('sha256', Buffer.from(`${header}.${payload}`), {
        key: rsa.privateKey,
        ...padding,
      })
      return `${header}.${payload}.${signature.toString('base64url')}`
    }
    assertRefused(await get(`Bearer ${signed('RS256')}`), 401, 'invalid_token')
    assert.equal((await get(`Bearer ${signed('PS256')}`)).status, 200)
    const none = Buffer.from('{"alg":"none","typ":"at+jwt","kid":"own"}').toString('base64url')
    assertRefused(await get(`Bearer ${none}.${payload}.`), 401, 'invalid_token')
  })

  it('section 5.4.2: does not start with keys that come over plain HTTP from another machine', async () => {
    const refused = run('gateway/main.ts', {
      GATEWAY_CONFIG: `${gateway.dir}/gateway.json`,
      GATEWAY_LIMITS: gateway.limitsFile,
      GATEWAY_JWKS_URI: 'http://keys.example/jwks.json',
    })
    assert.equal(await refused.ended, 1)
    assert.match(refused.plain(), /GATEWAY_JWKS_URI: must be https/)
  })

  it('section 5.4.3: accepts neither of two keys of one algorithm with one kid', async () => {
    assertRefused(await get(`Bearer ${await token({}, 'twice')}`), 401, 'invalid_token')
  })
})
