import { signRequest } from '../../auth/signatures/request-signer.ts'
import { type Field, valueIn } from '../../edge/syntax/field.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import type { CommonFields } from '../../upstream/common-fields.ts'
import { hostOf } from '../../upstream/upstream-address.ts'

interface RequestToService {
  readonly target: string
  readonly common: CommonFields
  /** The signature is added to this list, not to a copy, because each retry changes the trace in this list. */
  readonly fields: Field[]
  readonly hasBody: boolean
  readonly signedTarget: string
}

export function signForService(
  { signer, clock }: Gateway,
  { route, method, bufferedBody }: Exchange,
  { target, common, fields: own, hasBody, signedTarget }: RequestToService,
): void {
  if (signer === undefined) return
  const fields = [...common.fields, ...own]
  const host = route?.sending?.namesTarget === true ? hostOf(signedTarget) : valueIn(fields, 'host')
  const scheme = /^(?:https|h2):/.test(signedTarget) ? 'https' : 'http'
  const uri = `${scheme}://${host?.toLowerCase()}${target}`
  const body = hasBody ? bufferedBody : undefined
  own.push(...signRequest(signer, { method, uri, fields, body, nowMs: clock() }))
}
