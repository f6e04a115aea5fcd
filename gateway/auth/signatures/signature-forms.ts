import type { SignatureProfile } from '../../config/clients/signature-profiles.ts'
import { BERLIN_GROUP, signBerlinResponse } from './berlin-group.ts'
import type { MessageSigner, SignedResponse, UnsignedResponse } from './message-signer.ts'
import { HTTP_MESSAGE } from './message-verifier.ts'
import type { SignatureForm } from './presented-signatures.ts'
import { signFapiResponse } from './response-signer.ts'
import { signUkResponse, UK_JWS } from './uk-jws.ts'

/** The ways to sign requests, by the `form` of profiles. */
export const SIGNATURE_FORMS: Readonly<Record<SignatureProfile['form'], SignatureForm>> = {
  'rfc-9421': HTTP_MESSAGE,
  'uk-jws': UK_JWS,
  'berlin-group': BERLIN_GROUP,
}

/** Signs a response. Undefined: the key of the gateway cannot sign in this form. */
type ResponseSigner = (signer: MessageSigner, response: UnsignedResponse) => SignedResponse | undefined

/** How responses are signed, by the `form` of their client. */
export const RESPONSE_SIGNERS: Readonly<Record<SignatureProfile['form'], ResponseSigner>> = {
  'rfc-9421': signFapiResponse,
  'uk-jws': signUkResponse,
  'berlin-group': signBerlinResponse,
}
