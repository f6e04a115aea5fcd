import assert from 'node:assert/strict'
import { type KeyObject, randomUUID } from 'node:crypto'
import { CompactSign, type JWK } from 'jose'
import { jwkThumbprint, sha256 } from '../keys/thumbprint.ts'
import { ReplayMemory } from '../replay.ts'
import { type Members, NOW_MS, NOW_SECONDS, publicJwk, signingKey } from '../tokens/issuer.test-support.ts'
import {
  PROOF_LIFETIME_MS,
  type ProofFault,
  ProofVerifier,
  type ProofVerifierOptions,
  type ProvenRequest,
} from './dpop.ts'

export const PUBLIC_URL = 'https://api.example'
export const TOKEN = 'access.token.of-the-client'
export const CLIENT = signingKey('ES256').privateKey

/** The thumbprint of what a client publishes of its key. */
export function jktOf(key: KeyObject): string {
  return jwkThumbprint(publicJwk(key) as Members) ?? ''
}

/** The request that a good proof is for. */
export const REQUEST: ProvenRequest = {
  method: 'POST',
  path: '/api/transfer',
  token: TOKEN,
  jkt: jktOf(CLIENT),
}

interface ProofParts {
  /** Each replaces or adds members of a good header and good claims; a member given as undefined is left out. */
  readonly header?: Members
  readonly claims?: Members
  readonly key?: KeyObject
  readonly alg?: string
}

/** A proof as jose signs it: a client that is independent of what verifies here. */
export function proofOf({ header, claims, key = CLIENT, alg = 'ES256' }: ProofParts = {}): Promise<string> {
  const payload = {
    jti: randomUUID(),
    htm: REQUEST.method,
    htu: `${PUBLIC_URL}${REQUEST.path}`,
    iat: NOW_SECONDS,
    ath: sha256(TOKEN),
    ...claims,
  }
  return new CompactSign(Buffer.from(JSON.stringify(payload)))
    .setProtectedHeader({ alg, typ: 'dpop+jwt', jwk: publicJwk(key) as JWK, ...header })
    .sign(key)
}

/** With a clock that stands still until it is set, and a memory of its own. */
export function proofVerifierOf(given: Partial<ProofVerifierOptions> = {}) {
  const time = { nowMs: NOW_MS }
  const clock = () => time.nowMs
  const verifier = new ProofVerifier({
    clock,
    replays: new ReplayMemory({ lifetimeMs: PROOF_LIFETIME_MS, clock }),
    nonces: undefined,
    publicUrls: [PUBLIC_URL],
    ...given,
  })
  return { verifier, time, clock }
}

/** What a verifier says whose memory is not shared, so that it need not wait. */
export function judge(
  verifier: ProofVerifier,
  ...[proof, request]: Parameters<ProofVerifier['verify']>
): ProofFault | undefined {
  const fault = verifier.verify(proof, request)
  assert.ok(!(fault instanceof Promise))
  return fault
}
