import type { SignatureProfile } from '../../config/clients/signature-profiles.ts'
import { BERLIN_GROUP } from './berlin-group.ts'
import { HTTP_MESSAGE } from './message-verifier.ts'
import type { SignatureForm } from './presented-signatures.ts'
import { UK_JWS } from './uk-jws.ts'

/** The ways to sign requests, by the `form` of profiles. */
export const SIGNATURE_FORMS: Readonly<Record<SignatureProfile['form'], SignatureForm>> = {
  'rfc-9421': HTTP_MESSAGE,
  'uk-jws': UK_JWS,
  'berlin-group': BERLIN_GROUP,
}
