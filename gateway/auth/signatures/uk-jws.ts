import { OPEN_BANKING, type UkJwsProfile } from '../../config/clients/signature-profiles.ts'
import { combinedValue } from '../../edge/syntax/field.ts'
import { decodeBase64url, decodeObject, type JsonObject } from '../tokens/jws.ts'
import { digestOf, type MessageSigner, type SignedResponse, type UnsignedResponse } from './message-signer.ts'
import {
  faultOfAge,
  type HeadVerification,
  OTHER_FORM,
  plain,
  type SignatureFault,
  type SignatureForm,
  type Terms,
  type UnverifiedRequest,
} from './presented-signatures.ts'
import { MAX_LABEL_AND_PARAMS_CHARS } from './signature-fields.ts'

const HEADER = 'x-jws-signature'
const CLAIMS = 'http://openbanking.org.uk/'
const [IAT, ISS, TAN] = [`${CLAIMS}iat`, `${CLAIMS}iss`, `${CLAIMS}tan`] as const
const MEMBERS: ReadonlySet<string> = new Set(['alg', 'typ', 'cty', 'kid', 'crit', 'b64', IAT, ISS, TAN])

/** Detached JWS of UK Open Banking (Read/Write Data API v4.0, "Message Signing"), also with the `b64` of v3.1.3. */
export const UK_JWS: SignatureForm = {
  headers: [HEADER],
  status: 400,
  parse(request) {
    const jws = readDetachedJws(request.fields)
    if (jws === undefined || typeof jws === 'string') return jws ?? []
    const { kid } = jws.header
    if (typeof kid !== 'string') return `${HEADER} has no kid`
    return [{ keyid: kid, verify: (terms) => verify(request, jws, terms) }]
  },
  challenge: () => [],
}

export interface DetachedJws {
  readonly protectedHeader: string
  readonly header: JsonObject
  readonly signature: Buffer
  /** Epoch seconds, not checked yet. */
  readonly iat: unknown
}

/** Undefined: the message has none. A text says what is wrong with it. */
export function readDetachedJws(fields: UnverifiedRequest['fields']): DetachedJws | string | undefined {
  const text = combinedValue(fields, HEADER)
  if (text === undefined) return undefined
  const [protectedHeader = '', payload, value = '', ...more] = text.split('.')
  if (payload !== '' || more.length > 0) return `${HEADER} is no JWS whose payload is detached`
  if (protectedHeader.length > MAX_LABEL_AND_PARAMS_CHARS)
    return `the header in ${HEADER} has more than ${MAX_LABEL_AND_PARAMS_CHARS} characters`
  const signature = decodeBase64url(value)
  if (signature === undefined) return `the signature in ${HEADER} is not base64url`
  const header = decodeObject(protectedHeader)
  if (typeof header === 'string') return `the header in ${HEADER} ${header}`
  return { protectedHeader, header, signature, iat: header[IAT] }
}

/** The text that is signed (RFC 7515 section 5.1, RFC 7797 section 3). */
export function signedText({ protectedHeader, header }: DetachedJws, body: Buffer): string {
  return `${protectedHeader}.${body.toString(header.b64 === false ? 'latin1' : 'base64url')}`
}

function verify(
  request: UnverifiedRequest,
  jws: DetachedJws,
  { signer: { profile }, key, nowMs }: Terms,
): HeadVerification {
  if (profile.form !== 'uk-jws') return { fault: OTHER_FORM }
  const { protectedHeader, header, signature, iat } = jws
  const fault = faultOfHeader(request, header) ?? faultOfClaims(header, profile, nowMs)
  if (fault !== undefined) return { fault }
  const check = key.checks.get('PS256')
  if (check === undefined) return { fault: { reason: 'mismatch', cause: 'the key is not for PS256' } }
  const value = signature.toString('base64')
  return {
    head: {
      unique: `value ${value}`,
      faultOf(body, bodyMs) {
        const stale = faultOfAge(Number(iat) * 1000, profile, bodyMs)
        if (stale !== undefined) return stale
        if (check({ signed: signedText(jws, body), signature })) return undefined
        return { reason: 'mismatch', cause: 'the signed body differs, or another key signed it' }
      },
      signed: (body) => ({
        key: key.key,
        signature: {
          label: HEADER,
          keyId: key.kid,
          thumbprint: key.thumbprint,
          algorithm: 'PS256',
          publicUrl: '',
          digest: body.length === 0 ? undefined : digestOf(body),
          input: protectedHeader,
          value,
        },
      }),
    },
  }
}

function faultOfHeader({ fields }: UnverifiedRequest, header: JsonObject): SignatureFault | undefined {
  const { alg, typ, cty, crit, b64 } = header
  if (alg !== 'PS256') return plain('unsupported', 'The alg of the signature must be PS256')
  const other = Object.keys(header).find((name) => !MEMBERS.has(name))
  if (other !== undefined)
    return plain('malformed', 'The signature has a claim that the standard does not name')
  if (typ !== undefined && typ !== 'JOSE') return plain('malformed', 'The typ of the signature must be JOSE')
  // RFC 7797: without b64 the payload is base64url. A b64 of false must be named in crit.
  if (b64 !== undefined && b64 !== false) return plain('malformed', 'The b64 of the signature must be false')
  const critical = [IAT, ISS, TAN, ...(b64 === false ? ['b64'] : [])]
  const names: readonly unknown[] = Array.isArray(crit) ? crit : []
  if (names.length !== critical.length || !critical.every((name) => names.includes(name)))
    return plain('malformed', `The crit of the signature must be ${critical.join(', ')}`)
  const type = combinedValue(fields, 'content-type')?.split(';', 1)[0]?.trim().toLowerCase()
  const isOfType = cty === undefined || type === (cty === 'json' ? 'application/json' : cty)
  return isOfType ? undefined : plain('malformed', 'The cty of the signature must be that of Content-Type')
}

function faultOfClaims(
  { [IAT]: iat, [ISS]: iss, [TAN]: tan }: JsonObject,
  profile: UkJwsProfile,
  nowMs: number,
): SignatureFault | undefined {
  if (iss !== profile.iss) return plain('unsupported', `The claim ${ISS} must be that of the client`)
  if (tan !== profile.tan) return plain('unsupported', `The claim ${TAN} must be ${profile.tan}`)
  if (typeof iat !== 'number') return plain('malformed', `The claim ${IAT} must be a number of seconds`)
  return faultOfAge(iat * 1000, profile, nowMs)
}

/** Undefined: there is no RSA key, or no `signing.iss`. */
export function signUkResponse(
  signer: MessageSigner,
  { body, nowMs }: UnsignedResponse,
): SignedResponse | undefined {
  const { iss, tan = OPEN_BANKING } = signer.claims
  if (iss === undefined) return undefined
  // Only a body is signed.
  if (body === undefined) return { lines: '' }
  const claims = { [IAT]: Math.floor(nowMs / 1000), [ISS]: iss, [TAN]: tan, crit: [IAT, ISS, TAN] }
  const header = JSON.stringify({ alg: 'PS256', typ: 'JOSE', kid: signer.keyId, ...claims })
  const encoded = Buffer.from(header).toString('base64url')
  const value = signer.signAs('PS256', `${encoded}.${body.toString('base64url')}`)
  return value && { lines: `${HEADER}: ${encoded}..${value.toString('base64url')}\r\n` }
}
