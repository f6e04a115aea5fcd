import type { PathLeniency } from '../../edge/rules/canonical-path.ts'
import { readTarget } from '../../edge/rules/request-target.ts'
import { algorithmNamed } from '../keys/signature.ts'
import { algorithmsOf } from '../keys/verification-key.ts'
import { isJsonObject, type JsonObject, parseJws } from '../tokens/jws.ts'
import { quote } from '../tokens/quote.ts'

/** FAPI 2.0 section 5.4.1: no RS256. */
export const PROOF_ALGORITHMS: readonly string[] = ['ES256', 'PS256', 'EdDSA', 'Ed25519']

export type ParsedProof = Exclude<ReturnType<typeof readProof>, string>

const MAX_PROOF_CHARS = 4 * 1024
const MAX_JTI_CHARS = 256
// Members that change what is signed (RFC 7515 section 4.1.11, RFC 7797).
const REFUSED_HEADER_MEMBERS = ['crit', 'b64']

/** Makes the checks of a DPoP proof (RFC 9449 section 4.2) that do not need the request. */
export function readProof(proof: string | undefined) {
  if (proof === undefined) return 'there is no DPoP header'
  if (proof.includes(',')) return 'there is more than one DPoP header'
  if (proof.length > MAX_PROOF_CHARS) return `longer than ${MAX_PROOF_CHARS} characters`
  const jws = parseJws(proof)
  if (typeof jws === 'string') return jws
  const { typ, alg, jwk } = jws.header
  if (typ !== 'dpop+jwt') return `typ ${quote(typ)} is no DPoP proof`
  const refused = REFUSED_HEADER_MEMBERS.find((name) => Object.hasOwn(jws.header, name))
  if (refused !== undefined) return `the header has ${refused}`
  if (!isJsonObject(jwk)) return 'the header has no jwk'
  const algorithms = algorithmsOf(jwk)
  if (typeof algorithms === 'string') return `the jwk ${algorithms}`
  const algorithm = algorithmNamed(alg)
  if (algorithm === undefined || algorithm === 'RS256') return `alg ${quote(alg)} is not accepted`
  if (!algorithms.includes(algorithm)) return `alg ${algorithm} is not what the jwk is for`
  const claims = readClaims(jws.payload)
  return typeof claims === 'string' ? claims : { jws, algorithm, jwk, claims }
}

function readClaims({ jti, htm, htu, iat, ath, nonce, exp, nbf }: JsonObject) {
  if (typeof jti !== 'string' || jti === '' || jti.length > MAX_JTI_CHARS) return `jti ${quote(jti)} is no id`
  if (typeof htm !== 'string') return `htm ${quote(htm)} is no method`
  if (typeof htu !== 'string') return `htu ${quote(htu)} is no URL`
  if (iat === undefined || !isTimeOrAbsent(iat)) return `iat ${quote(iat)} is no time`
  if (typeof ath !== 'string') return `ath ${quote(ath)} is no hash`
  if (!isTimeOrAbsent(exp)) return `exp ${quote(exp)} is no time`
  if (!isTimeOrAbsent(nbf)) return `nbf ${quote(nbf)} is no time`
  return { jti, htm, htu, iat, ath, nonce, exp, nbf }
}

function isTimeOrAbsent(value: unknown): value is number | undefined {
  return value === undefined || (typeof value === 'number' && Number.isFinite(value))
}

export interface Htu {
  /** In lower case, without the scheme's default port. */
  readonly origin: string
  readonly path: string
}

const ORIGIN = /^(https?):\/\/([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{0,5}))?(?:[/?#]|$)/i

/** Reads `htu` for the comparison of RFC 9449 section 4.3. Undefined: no http or https URL. */
export function readHtu(htu: string, leniency?: PathLeniency): Htu | undefined {
  const [, scheme = '', host = '', port = ''] = ORIGIN.exec(htu) ?? []
  if (scheme === '') return undefined
  const end = htu.search(/[?#]/)
  const target = readTarget(end === -1 ? htu : htu.slice(0, end), leniency)
  if (typeof target === 'string') return undefined
  const lower = scheme.toLowerCase()
  const isDefault = port === '' || Number(port) === (lower === 'http' ? 80 : 443)
  const suffix = isDefault ? '' : `:${Number(port)}`
  return { origin: `${lower}://${host.toLowerCase()}${suffix}`, path: target.path }
}
