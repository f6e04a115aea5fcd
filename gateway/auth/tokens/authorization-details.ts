import { checkedText, memberIn } from '../../edge/bodies/exact-json.ts'
import type { JsonObject } from './jws.ts'

/**
 * Replaces `authorization_details` (RFC 9396) by its JSON text. It keeps numbers as the issuer wrote them, since they are amounts.
 *
 * @param json text whose member `within` has the claims @returns the claims without it when the text is no strict JSON
 */
export function withDetailsAsText(claims: JsonObject, json: () => Buffer, within?: string): JsonObject {
  if (claims.authorization_details === undefined) return claims
  const checked = checkedText(json())
  const steps = [...(within === undefined ? [] : [within]), 'authorization_details']
  const text = 'text' in checked ? memberIn(checked.text, steps).source : undefined
  return { ...claims, authorization_details: text }
}
