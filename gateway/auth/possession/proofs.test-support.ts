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

/** The thumbprint of the public part of a client's key. */
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

/** A proof that jose signs. jose shares no code with the verifier. */
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

/** A verifier whose clock stands still until it is set, with a memory of its own. */
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

/** The verdict of a verifier that need not wait, because its memory is not shared. */
export function judge(
  verifier: ProofVerifier,
  ...[proof, request]: Parameters<ProofVerifier['verify']>
): ProofFault | undefined {
  const fault = verifier.verify(proof, request)
  assert.ok(!(fault instanceof Promise))
  return fault
}
