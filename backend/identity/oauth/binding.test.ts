import assert from 'node:assert/strict'
import { createHash, X509Certificate } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import 'reflect-metadata'
import {
  BasicConstraintsExtension,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from '@peculiar/x509'
import { calculateJwkThumbprint, decodeJwt, exportJWK } from 'jose'
import * as client from 'openid-client'
import { migrate } from '../../database/migrations.ts'
import { openTestPglite } from '../../testing/databases.ts'
import {
  allow,
  type OAuthService,
  pkce,
  startOAuthService,
  tokensFor,
  WEB_REDIRECT,
} from '../../testing/oauth.ts'
import { certificateNames, clientCertificate } from './client-certificate.ts'

const TLS_CLIENT = {
  client_id: 'tls-portal',
  token_endpoint_auth_method: 'tls_client_auth',
  tls_client_auth_san_dns: 'portal.example.com',
  tls_client_certificate_bound_access_tokens: true,
  redirect_uris: [WEB_REDIRECT],
  grant_types: ['authorization_code', 'refresh_token'],
} as const

const MTLS_URL = 'https://mtls.example.com:8443'
const SIGNING = { name: 'ECDSA', hash: 'SHA-256' }
const makeKeys = () =>
  crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign', 'verify'])

async function makeAuthority(name: string) {
  const keys = await makeKeys()
  const made = await X509CertificateGenerator.createSelfSigned({
    name,
    notAfter: new Date(Date.now() + 60_000),
    signingAlgorithm: SIGNING,
    keys,
    extensions: [new BasicConstraintsExtension(true, undefined, true)],
  })
  return { name, keys, certificate: new X509Certificate(Buffer.from(made.rawData)) }
}

type Authority = Awaited<ReturnType<typeof makeAuthority>>

async function certificateBy(
  issuer: Authority | undefined,
  ...names: readonly string[]
): Promise<X509Certificate> {
  const keys = await makeKeys()
  const subject = 'CN=portal.example.com'
  const certificate = await X509CertificateGenerator.create({
    subject,
    issuer: issuer?.name ?? subject,
    notAfter: new Date(Date.now() + 60_000),
    signingAlgorithm: SIGNING,
    publicKey: keys.publicKey,
    signingKey: (issuer?.keys ?? keys).privateKey,
    extensions: [
      new SubjectAlternativeNameExtension(
        names.map((value) => ({ type: value.includes(':') ? 'url' : 'dns', value })),
      ),
    ],
  })
  return new X509Certificate(Buffer.from(certificate.rawData))
}

const certificateFor = (...names: readonly string[]) => certificateBy(undefined, ...names)

const header = (certificate: X509Certificate) => `:${certificate.raw.toString('base64')}:`

describe('OAuth tokens bound to a key or certificate', () => {
  let oauth: OAuthService
  let mobile: client.Configuration
  let ours: Authority
  before(async () => {
    const database = await openTestPglite()
    await migrate(database)
    ours = await makeAuthority('CN=Ours')
    const issued = {
      ...TLS_CLIENT,
      client_id: 'issued-portal',
      tls_client_auth_issuers: [ours.certificate.raw.toString('base64')],
    }
    oauth = await startOAuthService(database, [TLS_CLIENT, issued], MTLS_URL)
    mobile = await oauth.discover('mobile-app')
  })
  after(async () => {
    await oauth.service.app.close()
    await oauth.service.database.close()
  })

  for (const alg of ['ES256', 'Ed25519']) {
    it(`carry the thumbprint of the DPoP key of ${alg}, after the round for a nonce (RFC 9449 section 8)`, async () => {
      const keys = await client.randomDPoPKeyPair(alg)
      const asked: number[] = []
      mobile[client.customFetch] = async (url, options) => {
        const response = await fetch(url, options as RequestInit)
        if (String(url).endsWith('/token')) asked.push(response.status)
        return response
      }
      const tokens = await tokensFor(oauth, mobile, { dpop: client.getDPoPHandle(mobile, keys) })
      assert.deepEqual(asked, [400, 200], 'the first proof had no nonce')
      assert.equal(tokens.token_type, 'dpop')
      const jkt = await calculateJwkThumbprint(await exportJWK(keys.publicKey))
      assert.deepEqual(decodeJwt(tokens.access_token).cnf, { jkt })

      const stolen = client.refreshTokenGrant(mobile, tokens.refresh_token ?? '')
      await assert.rejects(stolen, { error: 'invalid_grant' }, 'without a proof')
      const other = client.getDPoPHandle(mobile, await client.randomDPoPKeyPair('ES256'))
      const forged = client.refreshTokenGrant(mobile, tokens.refresh_token ?? '', undefined, { DPoP: other })
      await assert.rejects(forged, { error: 'invalid_grant' }, 'with the proof of another key')
      const own = client.getDPoPHandle(mobile, keys)
      const refreshed = await client.refreshTokenGrant(mobile, tokens.refresh_token ?? '', undefined, {
        DPoP: own,
      })
      assert.deepEqual(decodeJwt(refreshed.access_token).cnf, { jkt })
      mobile[client.customFetch] = fetch as client.CustomFetch
    })
  }

  it('are given at the address for certificates only for a proof that names this address', async () => {
    const keys = await client.randomDPoPKeyPair('ES256')
    const parameters = { dpop: client.getDPoPHandle(mobile, keys) }
    const { refresh_token = '' } = await tokensFor(oauth, mobile, parameters)
    const { supportsPKCE: _, ...server } = mobile.serverMetadata()
    const aliased = new client.Configuration(
      { ...server, token_endpoint: `${MTLS_URL}/oauth/token` },
      'mobile-app',
      undefined,
      client.None(),
    )
    const refreshAt = (host: string) => {
      aliased[client.customFetch] = (_url, options) => {
        const headers = { ...options.headers, 'x-forwarded-host': host }
        return fetch(server.token_endpoint ?? '', { ...(options as RequestInit), headers })
      }
      const DPoP = client.getDPoPHandle(aliased, keys)
      return client.refreshTokenGrant(aliased, refresh_token, undefined, { DPoP })
    }
    await assert.rejects(refreshAt('mtls.example.com'), { error: 'invalid_dpop_proof' })
    assert.ok((await refreshAt('mtls.example.com:8443')).access_token)
  })

  it('are not given for a proof that was used before, not even at the same moment', async () => {
    const keys = await client.randomDPoPKeyPair('ES256')
    const { refresh_token } = await tokensFor(oauth, mobile, { dpop: client.getDPoPHandle(mobile, keys) })
    let sent: RequestInit | undefined
    let statuses: number[] = []
    mobile[client.customFetch] = async (url, options) => {
      sent = options as RequestInit
      const responses = await Promise.all([1, 2, 3].map(() => fetch(url, sent)))
      statuses = responses.map(({ status }) => status)
      return responses.find(({ status }) => status === 200) ?? (responses[0] as Response)
    }
    const own = client.getDPoPHandle(mobile, keys)
    await client.refreshTokenGrant(mobile, refresh_token ?? '', undefined, { DPoP: own }).catch(() => {})
    mobile[client.customFetch] = fetch as client.CustomFetch
    assert.ok(statuses.filter((status) => status === 200).length <= 1, String(statuses))
  })

  it('are not given for another key than dpop_jkt names (RFC 9449 section 10)', async () => {
    const { verifier, parameters } = await pkce({ dpop_jkt: 'A'.repeat(43) })
    const back = await allow(oauth, client.buildAuthorizationUrl(mobile, parameters))
    const keys = await client.randomDPoPKeyPair('ES256')
    const checks = { pkceCodeVerifier: verifier, expectedState: 'a-state' }
    const grant = client.authorizationCodeGrant(mobile, back, checks, undefined, {
      DPoP: client.getDPoPHandle(mobile, keys),
    })
    await assert.rejects(grant, { error: 'invalid_grant' })
  })

  /** Makes a client that presents the certificate last given to `presenting`. */
  async function tlsClient(clientId: string) {
    const config = await client.discovery(new URL(oauth.url), clientId, undefined, client.TlsClientAuth(), {
      execute: [client.allowInsecureRequests],
    })
    const presenting = (shown: X509Certificate | undefined) => {
      config[client.customFetch] = (url, options) => {
        const headers = new Headers(options.headers)
        if (shown !== undefined) headers.set('client-cert', header(shown))
        return fetch(url, { ...(options as RequestInit), headers })
      }
    }
    return { config, presenting }
  }

  it('carry the thumbprint of the client certificate, which also authenticates the client (RFC 8705)', async () => {
    const certificate = await certificateFor('portal.example.com')
    const { config, presenting } = await tlsClient('tls-portal')
    presenting(certificate)
    const tokens = await tokensFor(oauth, config, { parameters: { redirect_uri: WEB_REDIRECT } })
    const thumbprint = createHash('sha256').update(certificate.raw).digest('base64url')
    assert.deepEqual(decodeJwt(tokens.access_token).cnf, { 'x5t#S256': thumbprint })

    for (const shown of [undefined, await certificateFor('other.example.com')]) {
      presenting(shown)
      const stolen = client.refreshTokenGrant(config, tokens.refresh_token ?? '')
      await assert.rejects(stolen, { error: 'invalid_client' })
    }
    presenting(certificate)
    assert.ok((await client.refreshTokenGrant(config, tokens.refresh_token ?? '')).access_token)
  })

  it('are refreshed only with a certificate of an authority that the client names, if it names any', async () => {
    const name = 'portal.example.com'
    const { config, presenting } = await tlsClient('issued-portal')
    presenting(await certificateBy(ours, name))
    const { refresh_token = '' } = await tokensFor(oauth, config, {
      parameters: { redirect_uri: WEB_REDIRECT },
    })
    const others = [await makeAuthority('CN=Other'), await makeAuthority('CN=Ours'), undefined]
    for (const other of others) {
      presenting(await certificateBy(other, name))
      await assert.rejects(client.refreshTokenGrant(config, refresh_token), { error: 'invalid_client' })
    }
    presenting(await certificateBy(ours, name))
    assert.ok((await client.refreshTokenGrant(config, refresh_token)).access_token)
  })
})

describe('clientCertificate', () => {
  it('reads a byte sequence of RFC 9440, and nothing else', async () => {
    const certificate = await certificateFor('a.example')
    assert.equal(clientCertificate(header(certificate))?.fingerprint256, certificate.fingerprint256)
    const encoded = certificate.raw.toString('base64')
    for (const value of [undefined, '', encoded, `:${encoded}`, ':AAAA:', '::', [header(certificate)]]) {
      assert.equal(clientCertificate(value), undefined)
    }
  })
})

describe('certificateNames', () => {
  it('compares whole alternative names of the right kind', async () => {
    const certificate = await certificateFor('a.example', 'https://client.example/one')
    const names = (property: string, expected: string) => certificateNames(certificate, property, expected)
    assert.ok(names('tls_client_auth_san_dns', 'a.example'))
    assert.ok(names('tls_client_auth_san_uri', 'https://client.example/one'))
    assert.ok(!names('tls_client_auth_san_dns', 'example'))
    // RFC 5280 section 7.2: DNS names have no case; URIs are compared as they are.
    assert.ok(names('tls_client_auth_san_dns', 'A.Example'))
    const upper = await certificateFor('API.Bank.Example', 'https://client.example/One')
    assert.ok(certificateNames(upper, 'tls_client_auth_san_dns', 'api.bank.example'))
    assert.ok(!certificateNames(upper, 'tls_client_auth_san_uri', 'https://client.example/one'))
    assert.ok(!names('tls_client_auth_san_uri', 'a.example'))
    assert.ok(!names('tls_client_auth_subject_dn', 'CN=portal.example.com'))
    const tricky = await certificateFor('a.example, DNS:b.example')
    assert.ok(!certificateNames(tricky, 'tls_client_auth_san_dns', 'b.example'))
  })
})
