import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, it } from 'node:test'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { onEachDatabase } from '../../testing/databases.ts'
import { type OAuthService, pkce, startOAuthService, WEB_REDIRECT } from '../../testing/oauth.ts'

const HOUR_SECONDS = 60 * 60

onEachDatabase('An assertion of a client', (database) => {
  let oauth: OAuthService
  let key: CryptoKey
  let edwardsKey: CryptoKey
  before(async () => {
    const pair = await generateKeyPair('ES256')
    key = pair.privateKey
    const edwards = await generateKeyPair('Ed25519')
    edwardsKey = edwards.privateKey
    oauth = await startOAuthService(database(), [
      {
        client_id: 'asserting',
        redirect_uris: [WEB_REDIRECT],
        jwks: { keys: [{ ...(await exportJWK(pair.publicKey)), use: 'sig', alg: 'ES256' } as never] },
      },
      ...(await Promise.all(
        ['EdDSA', 'Ed25519', undefined].map(async (alg) => ({
          client_id: `edwards-${alg}`,
          redirect_uris: [WEB_REDIRECT],
          jwks: {
            keys: [{ ...(await exportJWK(edwards.publicKey)), use: 'sig', ...(alg && { alg }) } as never],
          },
        })),
      )),
    ])
  })
  after(() => oauth.service.app.close())

  /** Pushes a request with an assertion that lasts until `exp`, by the system's clock, which the provider uses. */
  async function push(
    exp: number,
    jti: string = randomUUID(),
    { client_id = 'asserting', alg = 'ES256', aud = oauth.url as string | string[] } = {},
  ) {
    const claims = { iss: client_id, sub: client_id, aud, jti, exp }
    const signer = alg === 'ES256' ? key : edwardsKey
    const assertion = await new SignJWT(claims).setProtectedHeader({ alg }).sign(signer)
    const { parameters } = await pkce({ redirect_uri: WEB_REDIRECT, scope: 'openid' })
    const body = new URLSearchParams({
      ...parameters,
      response_type: 'code',
      client_id,
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      client_assertion: assertion,
    })
    const response = await fetch(`${oauth.url}/oauth/par`, { method: 'POST', body })
    return { status: response.status, body: (await response.json()) as { error?: string } }
  }
  const remembered = () =>
    database().query<{ expires_at: Date }>(
      "SELECT expires_at FROM oauth_artifacts WHERE model = 'ReplayDetection' ORDER BY expires_at",
    )
  const now = () => Math.floor(Date.now() / 1000)

  it('is taken once while it is in force', async () => {
    const jti = randomUUID()
    assert.equal((await push(now() + HOUR_SECONDS, jti)).status, 201)
    assert.equal((await push(now() + HOUR_SECONDS, jti)).body.error, 'invalid_client')
    assert.equal((await push(now() - HOUR_SECONDS)).body.error, 'invalid_client')
    assert.equal((await remembered()).length, 1)
  })

  it('may be signed by Ed25519 under either name (RFC 9864) that its key does not exclude', async () => {
    for (const [keyAlg, alg] of [
      ['EdDSA', 'EdDSA'],
      ['Ed25519', 'Ed25519'],
      [undefined, 'EdDSA'],
      [undefined, 'Ed25519'],
    ]) {
      const client_id = `edwards-${keyAlg}`
      const { status, body } = await push(now() + HOUR_SECONDS, randomUUID(), { client_id, alg })
      assert.equal(status, 201, `${alg} by a key of ${keyAlg}: ${JSON.stringify(body)}`)
    }
  })

  it('is refused when it lasts for longer than an hour, because it must be remembered as long', async () => {
    const known = await remembered()
    for (const exp of [now() + 2 * HOUR_SECONDS, Date.parse('5000-01-01') / 1000, 1e14, 1e300]) {
      const { status, body } = await push(exp)
      assert.deepEqual([status, body.error], [401, 'invalid_client'], String(exp))
    }
    assert.deepEqual(await remembered(), known)
  })

  it('is refused when its audience is anything but the issuer as one text', async () => {
    for (const aud of [
      [oauth.url],
      [oauth.url, 'https://other.example'],
      `${oauth.url}/oauth/par`,
      `${oauth.url}/oauth/token`,
    ]) {
      const { status, body } = await push(now() + 60, randomUUID(), { aud })
      assert.deepEqual([status, body.error], [401, 'invalid_client'], String(aud))
    }
  })
})
