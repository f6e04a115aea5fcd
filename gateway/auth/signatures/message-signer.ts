import { createPrivateKey, createPublicKey, hash, type KeyObject } from 'node:crypto'
import type { Settings } from '../../config/settings.ts'
import { signatureMaker } from '../keys/signature.ts'
import { jwkThumbprint } from '../keys/thumbprint.ts'
import type { JsonObject } from '../tokens/jws.ts'
import { REGISTERED } from './message-verifier.ts'

/** An identifier of a component as it is written in Signature-Input, and its value. */
export type Component = readonly [identifier: string, value: string]

interface Made {
  /** `@signature-params`. */
  readonly input: string
  /** Base64. */
  readonly value: string
}

/** Content-Digest of a body as it is transferred (RFC 9530 section 2). */
export function digestOf(body: Buffer): string {
  return `sha-256=:${hash('sha256', body, 'base64')}:`
}

/** Signs messages with the key of the gateway (RFC 9421 section 3.1). */
export class MessageSigner {
  /** Its thumbprint (RFC 7638). */
  readonly keyId: string
  readonly publicKey: KeyObject
  /** As JOSE names it. */
  readonly algorithm: string
  /** A JWK Set of the key and those that are published beside it. */
  readonly jwks: Buffer
  readonly #registered: string
  readonly #sign: (text: string) => Buffer

  /** @param keys in PEM, as `loadSigningKeys` reads them */
  constructor({ algorithm }: NonNullable<Settings['signing']>, keys: readonly string[]) {
    const published = keys.map((pem) => publicJwk(createPublicKey(pem)))
    this.publicKey = createPublicKey(keys[0] ?? '')
    this.keyId = String(published[0]?.kid)
    this.algorithm = String(published[0]?.alg)
    this.#registered = algorithm
    this.#sign = signatureMaker(createPrivateKey(keys[0] ?? ''), REGISTERED.get(algorithm) ?? 'EdDSA')
    // A key may be in two files while it is replaced.
    const byId = new Map(published.map((jwk) => [jwk.kid, jwk] as const))
    this.jwks = Buffer.from(JSON.stringify({ keys: [...byId.values()] }))
  }

  sign(components: readonly Component[], tag: string, nowMs: number): Made {
    const identifiers = components.map(([identifier]) => identifier).join(' ')
    const created = Math.floor(nowMs / 1000)
    const input = `(${identifiers});created=${created};keyid="${this.keyId}";alg="${this.#registered}";tag="${tag}"`
    const lines = components.map(([identifier, value]) => `${identifier}: ${value}\n`).join('')
    return { input, value: this.#sign(`${lines}"@signature-params": ${input}`).toString('base64') }
  }
}

const JWK_ALGORITHMS: Readonly<Record<string, string>> = { EC: 'ES256', OKP: 'EdDSA', RSA: 'PS512' }

/** Its `kid` is its thumbprint. */
function publicJwk(key: KeyObject): JsonObject {
  const jwk = key.export({ format: 'jwk' }) as JsonObject
  return { ...jwk, kid: jwkThumbprint(jwk), use: 'sig', alg: JWK_ALGORITHMS[String(jwk.kty)] }
}
