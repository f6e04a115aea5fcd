import type { SignatureProfile } from '../../config/clients/signature-profiles.ts'
import { originForm } from '../../edge/rules/request-target.ts'
import { combinedValue } from '../../edge/syntax/field.ts'
import { BERLIN_GROUP, signBerlinResponse } from './berlin-group.ts'
import {
  type Component,
  digestOf,
  type MessageSigner,
  type SignedResponse,
  type UnsignedResponse,
} from './message-signer.ts'
import { HTTP_MESSAGE } from './message-verifier.ts'
import type { SignatureForm } from './presented-signatures.ts'
import { signUkResponse, UK_JWS } from './uk-jws.ts'

const LABEL = 'gateway'

export const SIGNATURE_FORMS: Readonly<Record<SignatureProfile['form'], SignatureForm>> = {
  'rfc-9421': HTTP_MESSAGE,
  'uk-jws': UK_JWS,
  'berlin-group': BERLIN_GROUP,
}

/** Undefined: the key of the gateway cannot sign in this form. */
type ResponseSigner = (signer: MessageSigner, response: UnsignedResponse) => SignedResponse | undefined

export const RESPONSE_SIGNERS: Readonly<Record<SignatureProfile['form'], ResponseSigner>> = {
  'rfc-9421': signFapiResponse,
  'uk-jws': signUkResponse,
  'berlin-group': signBerlinResponse,
}

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
