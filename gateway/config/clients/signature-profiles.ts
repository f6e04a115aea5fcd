import { isToken } from '../../edge/syntax/characters.ts'
import { parseItem, serializeParameters } from '../../edge/syntax/structured-field.ts'
import type { SIGNATURE } from '../keys/clients-keys.ts'
import type { Written } from '../keys/key-types.ts'
import { windowToMs } from '../rules/window-rule.ts'

type WrittenSignature = Pick<Written<typeof SIGNATURE>, 'profile' | 'iss' | 'tan'>

/** What a client's signatures must have besides being valid. */
export type SignatureProfile = MessageProfile | UkJwsProfile | BerlinGroupProfile

/** HTTP Message Signatures (RFC 9421). */
export interface MessageProfile {
  readonly form: 'rfc-9421'
  /** The components that must be covered, as `identifierOf` writes them. */
  readonly components: readonly string[]
  /** Fields, in lower case, that must be covered if they are sent. */
  readonly whenSent: readonly string[]
  readonly tag: string | undefined
  readonly maxAgeMs: number
  /** Accepted names: those of RFC 9421 section 6.2 for a signature with `alg`, those of JOSE for one without `alg`. */
  readonly algorithms: readonly string[]
}

/** Detached JWS of UK Open Banking (Read/Write Data API profile v4.0, "Message Signing"). */
export interface UkJwsProfile {
  readonly form: 'uk-jws'
  /** The claims `http://openbanking.org.uk/iss` and `/tan` that a signature must have. */
  readonly iss: string
  readonly tan: string
  readonly maxAgeMs: number
}

/** Signature and Digest of NextGenPSD2 (Implementation Guidelines 1.3, section 12). */
interface BerlinGroupProfile {
  readonly form: 'berlin-group'
  readonly maxAgeMs: number
}

/** Derived components of a request (RFC 9421 section 2.2). */
export const DERIVED_COMPONENTS: ReadonlySet<string> = new Set([
  '@method',
  '@target-uri',
  '@authority',
  '@scheme',
  '@request-target',
  '@path',
  '@query',
  '@query-param',
])
/** Bounds how long signatures are remembered. */
export const MAX_AGE_MS = 300_000

/** FAPI 2.0 HTTP Signatures, draft of August 2026, section 5.3.1. */
const FAPI_2: MessageProfile = {
  form: 'rfc-9421',
  components: ['"@method"', '"@target-uri"'],
  whenSent: ['authorization', 'dpop'],
  tag: 'fapi-2-request',
  maxAgeMs: 60_000,
  algorithms: ['ES256', 'EdDSA', 'PS256', 'ecdsa-p256-sha256', 'ed25519', 'rsa-pss-sha512'],
}

export const OPEN_BANKING = 'openbanking.org.uk'

export function profileOf({ profile, iss = '', tan = OPEN_BANKING }: WrittenSignature): SignatureProfile {
  if (profile === 'fapi-2') return FAPI_2
  if (profile === 'uk-jws') return { form: profile, iss, tan, maxAgeMs: MAX_AGE_MS }
  if (profile === 'berlin-group') return { form: profile, maxAgeMs: MAX_AGE_MS }
  const { components, tag, maxAge, algorithms } = profile
  return {
    form: 'rfc-9421',
    components: components.flatMap((name) => componentNamed(name) ?? []),
    whenSent: [],
    tag,
    maxAgeMs: windowToMs(maxAge),
    algorithms,
  }
}

interface PartFault {
  /** The path below `signature`, such as `.profile.maxAge`. */
  readonly part: string
  readonly reason: string
}

/** The faulty part of a `signature` that the schema allows. */
export function profileFault({ profile, iss, tan }: WrittenSignature): PartFault | undefined {
  if (profile === 'uk-jws')
    return iss === undefined ? { part: '.iss', reason: 'is missing: uk-jws needs it' } : undefined
  const claim = iss !== undefined ? '.iss' : '.tan'
  if ((iss ?? tan) !== undefined) return { part: claim, reason: 'must not be set: only uk-jws has it' }
  return typeof profile === 'string' ? undefined : describedFault(profile)
}

function describedFault({
  maxAge,
  components,
}: Exclude<WrittenSignature['profile'], string>): PartFault | undefined {
  if (windowToMs(maxAge) > MAX_AGE_MS) return { part: '.profile.maxAge', reason: 'must be at most "5m"' }
  const index = components.findIndex((name) => componentNamed(name) === undefined)
  if (index === -1) return undefined
  const reason = `must be the name of a header in lower case, or of ${[...DERIVED_COMPONENTS].join(', ')}, with its parameters (@query-param;name="id")`
  return { part: `.profile.components[${index}]`, reason }
}

/** A name of a query parameter in a signature (RFC 9421 section 2.2.8). */
const PERCENT_ENCODED = /^[\w*.%-]*$/

/** The identifier of a component such as `@query-param;name="id"`; undefined: no request has the component. */
function componentNamed(written: string): string | undefined {
  const [name = ''] = written.split(';', 1)
  const isField = isToken(name) && name === name.toLowerCase()
  if (!isField && !DERIVED_COMPONENTS.has(name)) return undefined
  const item = parseItem(`"${name}"${written.slice(name.length)}`)
  const parameter = item?.parameters.get('name')
  if (item === undefined || (name === '@query-param') !== (parameter !== undefined)) return undefined
  if (parameter !== undefined && !PERCENT_ENCODED.test(String(parameter.value))) return undefined
  return item.item.text + serializeParameters([...item.parameters].sort())
}
