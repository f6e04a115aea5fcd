import { challenges, schemeOf } from '../auth/tokens/authorization.ts'
import type { DetailsTerms, JsonMember } from '../config/settings.ts'
import { isSameJson, memberIn } from '../edge/bodies/exact-json.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { type Outcome, refusal } from '../refusals.ts'
import { readMembers } from './body/json-body.ts'

/** One of the token's `authorization_details` (RFC 9396) must fit the compared members of the body. */
export function matchDetails(gateway: Gateway, exchange: Exchange): Outcome {
  const terms = exchange.route?.authorizationDetails
  if (terms === undefined) return undefined
  return readMembers(gateway, exchange, terms.members, (values) => {
    const cause = misfitOf(terms, exchange.principal?.authorizationDetails, values)
    return cause === undefined
      ? undefined
      : refusal('authorization_details_mismatch', {
          cause,
          headers: challenges({
            error: 'insufficient_authorization',
            scheme: schemeOf(exchange.headers.authorization),
          }),
        })
  })
}

/** Undefined when a detail fits. @param values of the body, in the order of `terms.members` */
function misfitOf(
  { type, details, members }: DetailsTerms,
  text: string | undefined,
  values: readonly (string | undefined)[],
): string | undefined {
  let misfit = `the token has no authorization_details of the type ${JSON.stringify(type)}`
  for (const step of placesOf(type, text)) {
    const { source: detail = '' } = memberIn(text as string, [step])
    const odd = members.find((_, index) => {
      const { source } = memberIn(detail, (details[index] as JsonMember).steps)
      const value = values[index]
      return source === undefined || value === undefined || !isSameJson(source, value)
    })
    if (odd === undefined) return undefined
    misfit = `${odd.pointer} of the body is not what the token's authorization_details permit`
  }
  return misfit
}

function placesOf(type: string, text = '[]'): readonly string[] {
  const details: unknown = JSON.parse(text)
  if (!Array.isArray(details)) return []
  return details.flatMap((detail, index) => (detail?.type === type ? [String(index)] : []))
}
