import type { ClaimTerm, TokenDialect } from '../../config/issuers/token-dialects.ts'
import type { JsonObject } from './jws.ts'
import { quote } from './quote.ts'

/** Access tokens hardly ever have these claims. */
const OF_ID_TOKENS = ['nonce', 'at_hash', 'c_hash']
const SAYS_ACCESS = /^(?:access(?:[ _-]?token)?|bearer|dpop)$/i

/** Finds why a token is no access token (RFC 8725 sections 3.11 and 3.12). @param type as `typeName` makes it */
export function faultOfKind(
  type: string,
  claims: JsonObject,
  { types, require, machine, scopeClaims, accessClaims }: TokenDialect,
): string | undefined {
  if (!types.includes(type))
    return `${type === '' ? 'a token without typ' : `typ ${quote(type)}`} is no access token`
  for (const term of require) {
    if (!meets(claims, term)) return `${term.claim} ${quote(claims[term.claim])} is not ${wordsOf(term)}`
  }
  if (type === 'at+jwt') return undefined
  const has = (claim: string) => claims[claim] !== undefined && claims[claim] !== null
  if (accessClaims.length > 0 && !accessClaims.some(has))
    return `it may be an ID token: it has no ${accessClaims.join(' and no ')}`
  if (require.some(saysAccess)) return undefined
  const strange = OF_ID_TOKENS.find(has)
  if (strange !== undefined) return `it may be an ID token: it has ${strange}`
  if (scopeClaims.some(has) || isMachine(claims, machine)) return undefined
  return `it may be an ID token: it has no ${[...scopeClaims, ...machine.map(({ claim }) => claim)].join(' and no ')}`
}

/** True for a term such as `token_use: access`. An ID token may meet any other term. */
export function saysAccess({ values }: ClaimTerm): boolean {
  return values.every((value) => SAYS_ACCESS.test(String(value)))
}

export function isMachine(claims: JsonObject, machine: readonly ClaimTerm[]): boolean {
  return machine.some((term) => meets(claims, term))
}

function meets(claims: JsonObject, { claim, values }: ClaimTerm): boolean {
  return (values as readonly unknown[]).includes(claims[claim])
}

function wordsOf({ values }: ClaimTerm): string {
  return values.map((value) => JSON.stringify(value)).join(' or ')
}
