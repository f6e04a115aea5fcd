import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { isSignedBy } from '../tokens/issuer.test-support.ts'
import { decodeBase64url, type JsonObject, parseJws } from '../tokens/jws.ts'
import { parseToken, REFUSED_HEADER_MEMBERS } from '../tokens/token.ts'
import type { Algorithm } from './signature.ts'
import { readKey } from './verification-key.ts'

interface Case {
  readonly name: string
  readonly keys: readonly JsonObject[]
  readonly valid: boolean
  readonly jws: string
}

/** The `json_web_signature` set of the Wycheproof project; the first line says where it is from. */
const CASES = readCases(readFileSync(new URL('wycheproof.ndjson', import.meta.url), 'utf8'))
const ALGORITHMS: readonly unknown[] = ['ES256', 'PS256', 'RS256', 'EdDSA'] satisfies Algorithm[]

function readCases(text: string): Case[] {
  const cases: Case[] = []
  let group = ''
  let keys: JsonObject[] = []
  for (const line of text.trimEnd().split('\n').slice(1)) {
    const row = JSON.parse(line)
    if (row.group !== undefined) {
      group = row.group
      keys = row.keys
    } else {
      cases.push({ name: `${row.case} ${group}: ${row.comment}`, keys, valid: row.valid, jws: row.jws })
    }
  }
  return cases
}

/**
 * Checks a token as the gateway does, but not its claims, because the payloads of the set are no claims. The header is
 * read with the payload `{}`, but the signature is checked over the payload of the case.
 *
 * @returns why it is refused, or undefined
 */
function refusalOf(jws: string, jwk: JsonObject): string | undefined {
  const parts = jws.split('.')
  const [header, payload = '', signature] = parts
  if (parts.length !== 3 || payload === '') return 'not three parts'
  if (decodeBase64url(payload) === undefined) return 'payload'
  const parsed = parseJws(`${header}.e30.${signature}`)
  if (typeof parsed === 'string') return parsed
  const { alg, kid } = parsed.header
  if (!ALGORITHMS.includes(alg)) return 'algorithm'
  if (REFUSED_HEADER_MEMBERS.some((name) => Object.hasOwn(parsed.header, name))) return 'header'
  // The set has keys and tokens without a kid; both need one here, so they get the same.
  const { key, fault } = readKey({ ...jwk, kid: jwk.kid ?? 'the-one' })
  if (key === undefined) return fault
  if (kid !== undefined && kid !== key.kid) return 'kid'
  if (!key.algorithms.includes(alg as Algorithm)) return 'pinned to another algorithm'
  return isSignedBy(key.key, alg as Algorithm, jws) ? undefined : 'signature'
}

function isAccepted({ jws, keys }: Case): boolean {
  return keys.some((key) => refusalOf(jws, key) === undefined)
}

/** True for a case that the gateway must accept if it is valid: it takes the algorithm and the key. */
function isOfOurs({ jws, keys }: Case): boolean {
  const { alg } = JSON.parse(Buffer.from(jws.split('.')[0] ?? '', 'base64url').toString())
  return (
    ALGORITHMS.includes(alg) && keys.some((jwk) => readKey({ ...jwk, kid: jwk.kid ?? 'x' }).key !== undefined)
  )
}

describe('the Wycheproof set of JSON web signatures', () => {
  it('has 355 invalid cases, every one refused', () => {
    const invalid = CASES.filter(({ valid }) => !valid)
    assert.equal(invalid.length, 355)
    assert.deepEqual(
      invalid.filter(isAccepted).map(({ name }) => name),
      [],
    )
  })

  it('has valid cases of our algorithms, and only those with an empty payload are refused', () => {
    const ours = CASES.filter((one) => one.valid && isOfOurs(one))
    const refused = ours.filter((one) => !isAccepted(one)).map(({ name }) => name)
    // RFC 7519 section 7.2: a JWT's payload is a JSON object, which an empty payload is not.
    assert.deepEqual(refused, ['259 rs256: emptyPayload', '272 ps256: emptyPayload'])
    assert.ok(ours.length >= 5, `${ours.length} cases`)
  })

  it('has none that reads as an access token', () => {
    for (const { jws } of CASES) assert.notEqual(parseToken(jws).fault, undefined)
  })
})
