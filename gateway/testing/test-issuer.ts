import { type CryptoKey, exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose'

export const ISSUER = 'http://localhost:8080'
export const AUDIENCE = `${ISSUER}/api`

/** An issuer that a gateway trusts when it fetches `jwks`. */
export interface TestIssuer {
  readonly jwks: { readonly keys: readonly JWK[] }
  /** A good access token; `claims` replace or add. */
  token(claims?: JWTPayload): Promise<string>
  readonly key: CryptoKey
}

export async function createIssuer(kid = 'test-key'): Promise<TestIssuer> {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  const jwk = { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' }
  return {
    jwks: { keys: [jwk] },
    key: privateKey,
    token: (claims = {}) => {
      const nowSeconds = Math.floor(Date.now() / 1000)
      return new SignJWT({
        iss: ISSUER,
        aud: AUDIENCE,
        sub: 'user-1',
        sid: 'session-1',
        jti: crypto.randomUUID(),
        client_id: 'session',
        scope: 'accounts:read',
        iat: nowSeconds,
        exp: nowSeconds + 600,
        ...claims,
      })
        .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid })
        .sign(privateKey)
    },
  }
}
