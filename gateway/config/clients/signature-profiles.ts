import { isToken } from '../../edge/syntax/characters.ts'
import { parseItem, serializeParameters } from '../../edge/syntax/structured-field.ts'
import type { SIGNATURE_PROFILE } from '../keys/clients-keys.ts'
import type { Written } from '../keys/key-types.ts'
import { windowToMs } from '../rules/window-rule.ts'

type WrittenProfile = Written<typeof SIGNATURE_PROFILE>

/** What a signature must be, beside right. Immutable data. */
export interface SignatureProfile {
  /** It must cover these, named as `identifierOf` does. */
  readonly components: readonly string[]
  /** Fields, in lower case, that it must cover where they are sent. */
  readonly whenSent: readonly string[]
  readonly tag: string | undefined
  readonly maxAgeMs: number
  /** The names that are accepted: of RFC 9421 section 6.2 for a signature with `alg`, of JOSE for one without. */
  readonly algorithms: readonly string[]
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
/** Signatures are remembered so long. */
export const MAX_AGE_MS = 300_000

/** FAPI 2.0 HTTP Signatures, draft of August 2026, section 5.3.1. */
const FAPI_2: SignatureProfile = {
  components: ['"@method"', '"@target-uri"'],
  whenSent: ['authorization', 'dpop'],
  tag: 'fapi-2-request',
  maxAgeMs: 60_000,
  algorithms: ['ES256', 'EdDSA', 'PS256', 'ecdsa-p256-sha256', 'ed25519', 'rsa-pss-sha512'],
}

/** Makes a valid profile. */
export function profileOf(written: WrittenProfile): SignatureProfile {
  if (typeof written === 'string') return FAPI_2
  const { components, tag, maxAge, algorithms } = written
  return {
    components: components.flatMap((name) => componentNamed(name) ?? []),
    whenSent: [],
    tag,
    maxAgeMs: windowToMs(maxAge),
    algorithms,
  }
}

/** The faulty part of a described profile whose keys are each valid, and the reason. */
export function profileFault(
  written: WrittenProfile,
): { readonly part: string; readonly reason: string } | undefined {
  if (typeof written === 'string') return undefined
  if (windowToMs(written.maxAge) > MAX_AGE_MS) return { part: '.maxAge', reason: 'must be at most "5m"' }
  const index = written.components.findIndex((name) => componentNamed(name) === undefined)
  if (index === -1) return undefined
  const reason = `must be the name of a header in lower case, or of ${[...DERIVED_COMPONENTS].join(', ')}, with its parameters (@query-param;name="id")`
  return { part: `.components[${index}]`, reason }
}

/** The identifier of a component that is written as `@query-param;name="id"`; undefined for one that no request has. */
function componentNamed(written: string): string | undefined {
  const [name = ''] = written.split(';', 1)
  const isField = isToken(name) && name === name.toLowerCase()
  if (!isField && !DERIVED_COMPONENTS.has(name)) return undefined
  const item = parseItem(`"${name}"${written.slice(name.length)}`)
  if (item === undefined || (name === '@query-param') !== item.parameters.has('name')) return undefined
  return item.item.text + serializeParameters([...item.parameters].sort())
}
