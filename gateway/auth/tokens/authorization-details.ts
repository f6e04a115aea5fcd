import { memberIn } from '../../edge/bodies/exact-json.ts'
import type { JsonObject } from './jws.ts'

/**
 * Replaces `authorization_details` (RFC 9396) by its JSON text, which keeps numbers as the issuer wrote them.
 * @param json accepted by `parseCheckedJson`; its member `within` has the claims
 */
export function withDetailsAsText(claims: JsonObject, json: () => Buffer, within?: string): JsonObject {
  if (claims.authorization_details === undefined) return claims
  const steps = [...(within === undefined ? [] : [within]), 'authorization_details']
  return { ...claims, authorization_details: memberIn(json().toString('utf8'), steps).source }
}
