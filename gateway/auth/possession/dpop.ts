import { createHmac } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { andThen } from '../../refusals.ts'
import { type SignatureCheck, signatureCheck } from '../keys/signature.ts'
import { jwkThumbprint, sha256 } from '../keys/thumbprint.ts'
import { importKey } from '../keys/verification-key.ts'
import type { ReplayFault, ReplayGuard } from '../replay.ts'
import { quote } from '../tokens/quote.ts'
import { type Htu, type ParsedProof, readHtu, readProof } from './dpop-proof.ts'

/** Refusal of a good token (RFC 9449 section 7.1, RFC 8705 section 3). `proofs_unavailable`: the proof may be good. */
export interface ProofFault {
  readonly error: 'invalid_dpop_proof' | 'use_dpop_nonce' | 'invalid_token' | 'proofs_unavailable'
  readonly description: string
  /** For the log. */
  readonly cause: string
  /** The client's certificate is not accepted now, so the client has guessed nothing. */
  readonly ofRefusedCertificate?: true
}

export interface ProofVerifierOptions {
  readonly clock: () => number
  /** Remembers proofs and nothing else. Its lifetime must be `PROOF_LIFETIME_MS`, and its wall clock `clock`. */
  readonly replays: Pick<ReplayGuard, 'take'>
  /** Undefined: proofs need no nonce. */
  readonly nonces: Nonces | undefined
  /** As clients know them, from the configuration alone. */
  readonly publicUrls: readonly string[]
}

export interface ProvenRequest {
  readonly method: string
  readonly path: string
  readonly token: string
  readonly jkt: string
}

/** `htu` may have any path, because it is only compared with the checked path of the request. */
const ANY_PATH = { encodedSlashes: true, pathParameters: true, underscoreNames: false }
const CACHE_SIZE = 10_000
/** FAPI 2.0 section 5.3.2.1, RFC 9449 section 11.1. */
const MAX_AGE_SECONDS = 60
const MAX_AHEAD_SECONDS = 10
/** How long a proof can be accepted, plus one second. */
export const PROOF_LIFETIME_MS = (MAX_AHEAD_SECONDS + MAX_AGE_SECONDS + 1) * 1000

type CheckedProof = ParsedProof & { readonly jkt: string }

/** Verifies DPoP proofs (RFC 9449). Keys are cached, results are not: a proof is good for one request. */
export class ProofVerifier {
  readonly #options: ProofVerifierOptions
  readonly #bases: readonly Htu[]
  /** By the thumbprint of the key. The key determines the algorithm. */
  readonly #checks = new LRUCache<string, SignatureCheck>({ max: CACHE_SIZE })

  /** @throws TypeError for an invalid public URL */
  constructor(options: ProofVerifierOptions) {
    this.#options = options
    this.#bases = options.publicUrls.map(baseOf)
  }

  nonce(): string | undefined {
    return this.#options.nonces?.current()
  }

  /** Checks a proof (RFC 9449 section 4.3) and remembers it as used. Never throws or rejects. */
  verify(
    proof: string | undefined,
    request: ProvenRequest,
  ): ProofFault | undefined | Promise<ProofFault | undefined> {
    const checked = this.#checkContent(proof, request)
    if ('error' in checked) return checked
    const isSigned = this.#checkOf(checked)
    if (typeof isSigned === 'string') return invalid(`the jwk ${isSigned}`)
    if (!isSigned(checked.jws)) return invalid('the signature does not fit')
    const { jkt, claims } = checked
    const { jti } = claims
    return andThen(this.#options.replays.take(`${jkt} ${jti}`, jkt), (replay) => replayFault(jti, replay))
  }

  #checkContent(proof: string | undefined, request: ProvenRequest): CheckedProof | ProofFault {
    const parsed = readProof(proof)
    if (typeof parsed === 'string') return invalid(parsed)
    const { jwk, claims } = parsed
    const jkt = jwkThumbprint(jwk)
    if (jkt === undefined) return invalid('the jwk lacks a member of its kind')
    const cause = this.#faultOfRequest(claims, request) ?? this.#faultOfTime(claims)
    if (cause !== undefined) return invalid(cause)
    if (jkt !== request.jkt) return WRONG_KEY
    const { nonces } = this.#options
    if (nonces?.accepts(claims.nonce) === false)
      return {
        error: 'use_dpop_nonce',
        description: 'Resource server requires nonce in DPoP proof',
        cause: `nonce ${quote(claims.nonce)} is not one in force`,
      }
    return { ...parsed, jkt }
  }

  #faultOfRequest(
    { htm, htu, ath }: ParsedProof['claims'],
    { method, path, token }: ProvenRequest,
  ): string | undefined {
    if (htm !== method) return `htm ${quote(htm)} is not ${method}`
    if (!this.#isOurs(htu, path)) {
      // The query is left out, because it may hold secrets.
      const shown = quote(htu.replace(/[?#].*/s, ''))
      return `htu ${shown} is not ${path} under a URL of "dpop.publicUrls": ${this.#options.publicUrls.join(', ')}`
    }
    return ath === sha256(token) ? undefined : 'ath is not the hash of the token'
  }

  #isOurs(htu: string, path: string): boolean {
    const read = readHtu(htu, ANY_PATH)
    return (
      read !== undefined &&
      this.#bases.some((base) => read.origin === base.origin && read.path === base.path + path)
    )
  }

  #faultOfTime({ iat, nbf = iat, exp }: ParsedProof['claims']): string | undefined {
    const nowSeconds = this.#options.clock() / 1000
    const ahead = Math.max(iat, nbf) - nowSeconds
    if (ahead > MAX_AHEAD_SECONDS)
      return `${nbf > iat ? 'nbf' : 'iat'} is ${Math.ceil(ahead)} s ahead of our clock; ${MAX_AHEAD_SECONDS} s are allowed`
    const age = nowSeconds - iat
    if (age > MAX_AGE_SECONDS)
      return `iat is ${Math.ceil(age)} s behind our clock; ${MAX_AGE_SECONDS} s are allowed`
    return exp !== undefined && exp <= nowSeconds
      ? `exp was ${Math.floor(nowSeconds - exp)} s ago; 0 s are allowed`
      : undefined
  }

  #checkOf({ jkt, jwk, algorithm }: CheckedProof): SignatureCheck | string {
    const known = this.#checks.get(jkt)
    if (known !== undefined) return known
    const key = importKey(jwk)
    if (typeof key === 'string') return key
    const check = signatureCheck(key, algorithm)
    this.#checks.set(jkt, check)
    return check
  }
}

function replayFault(jti: string, replay: ReplayFault | undefined): ProofFault | undefined {
  if (replay === undefined) return undefined
  if (replay === 'replayed') return invalid(`jti ${quote(jti)}: replayed`)
  const description = 'DPoP proofs cannot be verified at the moment'
  return { error: 'proofs_unavailable', description, cause: CAUSES[replay] }
}

const CAUSES: Readonly<Record<Exclude<ReplayFault, 'replayed'>, string>> = {
  full: 'no more proofs can be remembered: full',
  crowded: 'no more proofs of this key can be remembered: it has used up its share',
  unwritable: 'no more proofs can be remembered: unwritable',
  away: 'the shared store is away',
}

function baseOf(url: string): Htu {
  const base = readHtu(url)
  if (base === undefined) throw new TypeError(`${url} is no http or https URL that a request can have`)
  return { origin: base.origin, path: base.path.endsWith('/') ? base.path.slice(0, -1) : base.path }
}

const WRONG_KEY: ProofFault = {
  error: 'invalid_token',
  description: 'Invalid DPoP key binding',
  cause: 'the jwk of the proof is not the key that the token is bound to',
}

// One description: to name the failed check would help a forger.
function invalid(cause: string): ProofFault {
  return { error: 'invalid_dpop_proof', description: 'The DPoP proof is invalid', cause }
}

/** How long a nonce is given out. It is accepted for at most twice as long. */
export const NONCE_STEP_MS = 60_000

/** Stateless nonces (RFC 9449 sections 8 and 9): an HMAC-SHA256 of the minute. */
export class Nonces {
  readonly #secret: () => Uint8Array
  readonly #clock: () => number
  #step = Number.NaN
  #usedSecret: Uint8Array | undefined
  /** Nonces of the last, this and the next minute, because the clock of another gateway may be ahead. */
  #accepted: readonly string[] = []

  /** @param secret at least 32 bytes that nobody can guess, the same at the gateways of one address; it may change */
  constructor(secret: () => Uint8Array, clock: () => number) {
    this.#secret = secret
    this.#clock = clock
    if (secret().length < 32) throw new TypeError('a secret of nonces must have at least 32 bytes')
  }

  current(): string {
    return this.#around()[1] as string
  }

  accepts(nonce: unknown): boolean {
    return this.#around().includes(nonce as string)
  }

  #around(): readonly string[] {
    const step = Math.floor(this.#clock() / NONCE_STEP_MS)
    const secret = this.#secret()
    if (step !== this.#step || secret !== this.#usedSecret) {
      this.#step = step
      this.#usedSecret = secret
      this.#accepted = [step - 1, step, step + 1].map((at) =>
        createHmac('sha256', secret).update(`DPoP-Nonce ${at}`).digest('base64url'),
      )
    }
    return this.#accepted
  }
}
