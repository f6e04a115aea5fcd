import { createHash } from 'node:crypto'
import { exportJWK, type JWTPayload, SignJWT } from 'jose'
import type { CryptoKeyPair } from 'openid-client'

/** A DPoP proof (RFC 9449 section 4.2), in which a test may replace every claim. */
export async function proof(
  { publicKey, privateKey }: CryptoKeyPair,
  claims: JWTPayload & { readonly htm: string; readonly htu: string },
): Promise<string> {
  return new SignJWT({ jti: crypto.randomUUID(), iat: Math.floor(Date.now() / 1000), ...claims })
    .setProtectedHeader({ typ: 'dpop+jwt', alg: 'ES256', jwk: await exportJWK(publicKey) })
    .sign(privateKey)
}

export function ath(accessToken: string): string {
  return createHash('sha256').update(accessToken).digest('base64url')
}
