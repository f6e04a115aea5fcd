import { nominatedBy } from '../../edge/rules/hop-by-hop.ts'
import { RESPONSE_PARTS } from '../../edge/rules/response-headers.ts'
import type { Field } from '../../edge/syntax/field.ts'

/** They are for the first request alone. */
const OF_ONE_REQUEST = /^(?:set-cookie2?|dpop-nonce|x-rate-?limit.*|x-(?:correlation|trace)-id)$/

/** The end-to-end fields of a service's response that a replay has too. */
export function keptFields(fields: readonly Field[]): (readonly [name: string, value: string])[] {
  const nominated = nominatedBy(fields)
  return fields
    .filter(
      ({ lower }) =>
        !RESPONSE_PARTS.has(lower) && nominated?.has(lower) !== true && !OF_ONE_REQUEST.test(lower),
    )
    .map(({ name, value }) => [name, value])
}
