import { createPrivateKey, createPublicKey, hash, type KeyObject } from 'node:crypto'
import type { Settings } from '../../config/settings.ts'
import type { Field } from '../../edge/syntax/field.ts'
import { type Algorithm, signatureMaker } from '../keys/signature.ts'
import { jwkThumbprint } from '../keys/thumbprint.ts'
import type { JsonObject } from '../tokens/jws.ts'
import { REGISTERED } from './message-verifier.ts'
import type { SignatureFacts } from './presented-signatures.ts'

export type Component = readonly [identifier: string, value: string]

interface Made {
  /** `@signature-params`. */
  readonly input: string
  /** Base64. */
  readonly value: string
}

export interface UnsignedResponse {
  readonly status: number
  /** As transferred. Undefined: a response of this status, or to this method, has none. */
  readonly body: Buffer | undefined
  readonly requestId: string
  /** As it was received. */
  readonly request: {
    readonly method: string
    readonly target: string
    readonly fields: readonly Field[]
    readonly publicUrl: string
  }
  readonly nowMs: number
}

export interface SignedResponse {
  /** Header lines to add, each with its CR LF. */
  readonly lines: string
  readonly signature?: SignatureFacts
}

/** Content-Digest (RFC 9530 section 2). */
export function digestOf(body: Buffer): string {
  return `sha-256=:${hash('sha256', body, 'base64')}:`
}

/** Signs messages with the key of the gateway (RFC 9421 section 3.1). */
export class MessageSigner {
  /** Thumbprint (RFC 7638). */
  readonly keyId: string
  readonly publicKey: KeyObject
  /** As JOSE names it. */
  readonly algorithm: Algorithm
  /** The public key and the keys of `alsoPublish`. */
  readonly jwks: Buffer
  readonly #registered: string
  readonly #key: KeyObject
  readonly #sign: (text: string) => Buffer
  /** Claims of `uk-jws`. */
  readonly claims: Pick<NonNullable<Settings['signing']>, 'iss' | 'tan'>

  /** @param keys in PEM, as `loadSigningKeys` reads them */
  constructor({ algorithm, iss, tan }: NonNullable<Settings['signing']>, keys: readonly string[]) {
    const published = keys.map((pem) => publicJwk(createPublicKey(pem)))
    this.publicKey = createPublicKey(keys[0] ?? '')
    this.keyId = String(published[0]?.kid)
    this.algorithm = REGISTERED.get(algorithm) ?? 'EdDSA'
    this.claims = { iss, tan }
    this.#registered = algorithm
    this.#key = createPrivateKey(keys[0] ?? '')
    this.#sign = signatureMaker(this.#key, this.algorithm)
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

  /** Signs by the algorithm that a form demands. Undefined: the key is not RSA. */
  signAs(algorithm: 'PS256' | 'RS256', text: string): Buffer | undefined {
    return this.#key.asymmetricKeyType === 'rsa' ? signatureMaker(this.#key, algorithm)(text) : undefined
  }
}

/** An RSA key has no `alg`: its algorithm depends on the form. */
const JWK_ALGORITHMS: Readonly<Record<string, string>> = { EC: 'ES256', OKP: 'EdDSA' }

function publicJwk(key: KeyObject): JsonObject {
  const jwk = key.export({ format: 'jwk' }) as JsonObject
  return { ...jwk, kid: jwkThumbprint(jwk), use: 'sig', alg: JWK_ALGORITHMS[String(jwk.kty)] }
}
