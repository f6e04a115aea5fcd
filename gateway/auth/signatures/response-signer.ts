import { originForm } from '../../edge/rules/request-target.ts'
import type { Field } from '../../edge/syntax/field.ts'
import { type Component, digestOf, type MessageSigner } from './message-signer.ts'
import type { SignatureFacts } from './presented-signatures.ts'
import { combinedValue } from './signature-fields.ts'

export interface UnsignedResponse {
  readonly status: number
  /** As it is transferred; undefined: a response of this status, or to this method, has none. */
  readonly body: Buffer | undefined
  /** As it was received. */
  readonly request: {
    readonly method: string
    readonly target: string
    readonly fields: readonly Field[]
    /** What stands before the target for the client. */
    readonly publicUrl: string
  }
  readonly nowMs: number
}

interface SignedResponse {
  /** Header lines to be added, each with its CR LF. */
  readonly lines: string
  readonly signature: SignatureFacts
}

const LABEL = 'gateway'

/** FAPI 2.0 HTTP Signatures, draft of August 2026, section 5.3.2. */
export function signFapiResponse(
  signer: MessageSigner,
  { status, body, request, nowMs }: UnsignedResponse,
): SignedResponse {
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
