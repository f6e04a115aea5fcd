import type { KeyObject } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { jwkThumbprint, sha256 } from '../keys/thumbprint.ts'
import { importKey } from '../keys/verification-key.ts'
import type { ReplayMemory } from '../replay.ts'
import type { JsonObject } from '../tokens/jws.ts'
import { quote } from '../tokens/quote.ts'
import { type ProofClaims, readProof } from './dpop-proof.ts'
import { type Htu, type ReadTarget, readHtu } from './htu.ts'
import type { Nonces } from './nonces.ts'
import type { ProofFault } from './proof-fault.ts'
import { isProofSignedBy, type ProofAlgorithm } from './proof-signature.ts'

export interface ProofVerifierOptions {
  /** Epoch milliseconds. */
  readonly clock: () => number
  /** For proofs alone, with a lifetime of `PROOF_LIFETIME_MS` and the same clock. */
  readonly replays: Pick<ReplayMemory, 'take'>
  /** Undefined: proofs need no nonce, and one that they have is not looked at. */
  readonly nonces: Nonces | undefined
  /** The URLs that clients know us by, perhaps with a path before ours: never what a request says of itself. */
  readonly publicUrls: readonly string[]
  /** How the target of a request is read: `htu` is read in the same way. */
  readonly readTarget: ReadTarget
  /** Imported keys remembered. */
  readonly cacheSize?: number
}

/** The request that a proof must have been made for. */
export interface ProvenRequest {
  readonly method: string
  /** Normalised, without the query. */
  readonly path: string
  readonly token: string
  /** The key that the token is bound to. */
  readonly jkt: string
}

const CACHE_SIZE = 10_000
/** FAPI 2.0 section 5.3.2.1 and RFC 9449 section 11.1: old or early by no more than this. */
const MAX_AGE_SECONDS = 60
const MAX_AHEAD_SECONDS = 10
/** How long a proof can be good: from the first moment to the last, and a second more. */
export const PROOF_LIFETIME_MS = (MAX_AHEAD_SECONDS + MAX_AGE_SECONDS + 1) * 1000

interface CheckedProof {
  readonly algorithm: ProofAlgorithm
  readonly jwk: JsonObject
  readonly jkt: string
  readonly jti: string
}

/** Checks DPoP proofs (RFC 9449). Keeps imported keys, never verdicts: a proof is good for one request. */
export class ProofVerifier {
  readonly #options: ProofVerifierOptions
  readonly #bases: readonly Htu[]
  readonly #keys: LRUCache<string, KeyObject>

  /** @throws TypeError for a public URL that is none */
  constructor(options: ProofVerifierOptions) {
    this.#options = options
    this.#bases = options.publicUrls.map((url) => baseOf(url, options.readTarget))
    this.#keys = new LRUCache({ max: options.cacheSize ?? CACHE_SIZE })
  }

  /** What `DPoP-Nonce` says now; undefined when no nonce is asked for. */
  nonce(): string | undefined {
    return this.#options.nonces?.current()
  }

  /**
   * Everything that RFC 9449 section 4.3 asks for, in the order of cost: the signature is verified only of a proof that
   * could be good, and only a proof that is good in all else is remembered. Never throws.
   *
   * @param proof the value of the `DPoP` header field; several of them joined by a comma
   * @returns undefined when the proof is good
   */
  verify(proof: string | undefined, request: ProvenRequest): ProofFault | undefined {
    const checked = this.#checkWords(proof, request)
    if ('error' in checked) return checked
    const key = this.#keyOf(checked)
    if (typeof key === 'string') return invalid(`the jwk ${key}`)
    if (!isProofSignedBy(key, checked.algorithm, proof as string))
      return invalid('the signature does not fit')
    const { jkt, jti } = checked
    const replay = this.#options.replays.take(`${jkt} ${jti}`)
    return replay === undefined ? undefined : invalid(`jti ${quote(jti)}: ${replay}`)
  }

  #checkWords(proof: string | undefined, request: ProvenRequest): CheckedProof | ProofFault {
    const words = readProof(proof)
    if (typeof words === 'string') return invalid(words)
    const { algorithm, jwk, claims } = words
    const jkt = jwkThumbprint(jwk)
    if (jkt === undefined) return invalid('the jwk lacks a member of its kind')
    const cause = this.#faultOfRequest(claims, request) ?? this.#faultOfTime(claims.iat)
    if (cause !== undefined) return invalid(cause)
    if (jkt !== request.jkt) return WRONG_KEY
    const { nonces } = this.#options
    if (nonces?.accepts(claims.nonce) === false) {
      return { ...NONCE_NEEDED, cause: `nonce ${quote(claims.nonce)} is not one in force` }
    }
    return { algorithm, jwk, jkt, jti: claims.jti }
  }

  #faultOfRequest(
    { htm, htu, ath }: ProofClaims,
    { method, path, token }: ProvenRequest,
  ): string | undefined {
    if (htm !== method) return `htm ${quote(htm)} is not the method`
    if (!this.#isOurs(htu, path)) {
      // A query may hold what no log should.
      const shown = quote(htu.replace(/[?#].*/s, ''))
      return `htu ${shown} is not this request's URL under any public URL of ours`
    }
    return ath === sha256(token) ? undefined : 'ath is not the hash of the token'
  }

  #isOurs(htu: string, path: string): boolean {
    const { readTarget } = this.#options
    const read = readHtu(htu, readTarget)
    return (
      read !== undefined &&
      this.#bases.some((base) => read.origin === base.origin && read.path === base.path + path)
    )
  }

  #faultOfTime(iat: number): string | undefined {
    const nowSeconds = this.#options.clock() / 1000
    if (iat > nowSeconds + MAX_AHEAD_SECONDS) return `iat ${iat} is in the future`
    return iat < nowSeconds - MAX_AGE_SECONDS ? `iat ${iat} is too long ago` : undefined
  }

  #keyOf({ jkt, jwk }: CheckedProof): KeyObject | string {
    const known = this.#keys.get(jkt)
    if (known !== undefined) return known
    const key = importKey(jwk)
    if (typeof key !== 'string') this.#keys.set(jkt, key)
    return key
  }
}

function baseOf(url: string, readTarget: ReadTarget): Htu {
  const base = readHtu(url, readTarget)
  if (base === undefined) throw new TypeError(`${url} is no http or https URL that a request can have`)
  return { origin: base.origin, path: base.path.endsWith('/') ? base.path.slice(0, -1) : base.path }
}

const WRONG_KEY: ProofFault = {
  error: 'invalid_token',
  description: 'Invalid DPoP key binding',
  cause: 'the jwk of the proof is not the key that the token is bound to',
}

const NONCE_NEEDED: Omit<ProofFault, 'cause'> = {
  error: 'use_dpop_nonce',
  description: 'Resource server requires nonce in DPoP proof',
}

// One sentence for all: which check failed would help whoever forges proofs.
function invalid(cause: string): ProofFault {
  return { error: 'invalid_dpop_proof', description: 'The DPoP proof is invalid', cause }
}
