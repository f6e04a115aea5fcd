import { originForm } from '../../edge/rules/request-target.ts'
import {
  type Component,
  digestOf,
  type MessageSigner,
  type SignedResponse,
  type UnsignedResponse,
} from './message-signer.ts'
import { combinedValue } from './signature-fields.ts'

const LABEL = 'gateway'

/** Signs a response by FAPI 2.0 HTTP Signatures, draft of August 2026, section 5.3.2. */
export function signFapiResponse(
  signer: MessageSigner,
  { status, body, request, nowMs }: UnsignedResponse,
): Required<SignedResponse> {
  const { method, target, fields, publicUrl } = request
  const digest = body && digestOf(body)
  const components: Component[] = [['"@status"', String(status)]]
  if (digest !== undefined) components.push(['"content-digest"', digest])
  components.push(['"@method";req', method], ['"@target-uri";req', publicUrl + originForm(target)])
  for (const name of ['content-digest', 'signature', 'signature-input']) {
    const sent = combinedValue(fields, name)
    if (sent !== undefined) components.push([`"${name}";req`, sent])
  }
  const { input, value } = signer.sign(components, 'fapi-2-response', nowMs)
  const { keyId, algorithm } = signer
  const digestLine = digest === undefined ? '' : `Content-Digest: ${digest}\r\n`
  return {
    lines: `${digestLine}Signature-Input: ${LABEL}=${input}\r\nSignature: ${LABEL}=:${value}:\r\n`,
    signature: { label: LABEL, keyId, thumbprint: keyId, algorithm, publicUrl, digest, input, value },
  }
}
