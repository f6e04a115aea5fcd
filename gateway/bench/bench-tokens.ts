import { createSign, generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

export const ISSUER = 'http://id.test'
export const AUDIENCE = 'api'
/** How the tokens' user was authenticated (RFC 9470). */
export const ACR = 'phr'
/** How many callers the tokens name, in turn. */
export const CALLERS = 10_000

export type TokenAlgorithm = 'RS256' | 'ES256'

/** An issuer's keys, and files with one token per line. */
export interface Tokens {
  readonly jwksFile: string
  readonly publicKeyFiles: Readonly<Record<TokenAlgorithm, string>>
  /** ES256 key (PEM), with which client and gateway sign. `jwksFile` has its public key. */
  readonly signingKeyFile: string
  readonly files: Readonly<Record<TokenAlgorithm, string>>
  /** Length of a token. */
  readonly bytes: Readonly<Record<TokenAlgorithm, number>>
}

/** Makes keys, and tokens that stay valid during the run. @param count of tokens by algorithm */
export function makeTokens(dir: string, count: Readonly<Record<TokenAlgorithm, number>>): Tokens {
  const pairs = {
    RS256: generateKeyPairSync('rsa', { modulusLength: 2048 }),
    ES256: generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  }
  const file = (name: string, text: string) => {
    const path = join(dir, name)
    writeFileSync(path, text)
    return path
  }
  const pem = (algorithm: TokenAlgorithm) =>
    file(`${algorithm}.pem`, pairs[algorithm].publicKey.export({ type: 'spki', format: 'pem' }) as string)
  const tokensOf = (algorithm: TokenAlgorithm) =>
    Array.from({ length: count[algorithm] }, (_, i) => tokenOf(algorithm, pairs[algorithm].privateKey, i))
  const tokens = { RS256: tokensOf('RS256'), ES256: tokensOf('ES256') }
  const keys = (['RS256', 'ES256'] as const).map((algorithm) => ({
    ...pairs[algorithm].publicKey.export({ format: 'jwk' }),
    kid: algorithm,
    alg: algorithm,
    use: 'sig',
  }))
  return {
    jwksFile: file('jwks.json', JSON.stringify({ keys })),
    publicKeyFiles: { RS256: pem('RS256'), ES256: pem('ES256') },
    signingKeyFile: file(
      'signing.pem',
      pairs.ES256.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    ),
    files: {
      RS256: file('RS256.tokens', tokens.RS256.join('\n')),
      ES256: file('ES256.tokens', tokens.ES256.join('\n')),
    },
    bytes: { RS256: tokens.RS256[0]?.length ?? 0, ES256: tokens.ES256[0]?.length ?? 0 },
  }
}

export function tokenOf(algorithm: TokenAlgorithm, key: KeyObject, index: number): string {
  const nowSeconds = Math.floor(Date.now() / 1000)
  const claims = {
    iss: ISSUER,
    aud: AUDIENCE,
    sub: `u${(index % CALLERS) + 10_000}`,
    jti: randomUUID().slice(0, 8),
    iat: nowSeconds,
    exp: nowSeconds + 12 * 60 * 60,
    scope: 'a:r t:w',
    acr: ACR,
    auth_time: nowSeconds,
  }
  const text = `${encode({ alg: algorithm, typ: 'at+jwt', kid: algorithm })}.${encode(claims)}`
  const signature = createSign('sha256').update(text).sign({ key, dsaEncoding: 'ieee-p1363' })
  return `${text}.${signature.toString('base64url')}`
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}
