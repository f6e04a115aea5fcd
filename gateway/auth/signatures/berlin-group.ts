import { hash } from 'node:crypto'
import { withoutNominated } from '../../edge/rules/hop-by-hop.ts'
import { combinedValue } from '../../edge/syntax/field.ts'
import { HASHES } from './content-digest.ts'
import type { MessageSigner, SignedResponse, UnsignedResponse } from './message-signer.ts'
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

/** A parameter: its value is quoted without escapes, or a number (draft-cavage-http-signatures-12 section 2.1). */
const PARAMETER = /[ \t]*([A-Za-z]+)[ \t]*=[ \t]*(?:"([^"\\]*)"|(\d+))[ \t]*(?:,|$)/y
/** The guidelines do not demand `date`, but without it a signature would be good for ever. */
const REQUIRED: readonly string[] = ['digest', 'x-request-id', 'date']
const WHEN_SENT: readonly string[] = ['psu-id', 'psu-corporate-id', 'tpp-redirect-uri']
const TARGET = '(request-target)'
/** One digest alone (RFC 3230 section 4.3.2): with two, readers could disagree which one counts. */
const DIGEST = /^(sha-256|sha-512)=([A-Za-z0-9+/]+={0,2})$/i
const ARMOUR = /-----(?:BEGIN|END) CERTIFICATE-----|\s/g

/** Signature and Digest of NextGenPSD2 (Guidelines 1.3, section 12), after draft-cavage-http-signatures. */
export const BERLIN_GROUP: SignatureForm = {
  headers: ['signature'],
  status: 401,
  parse(request) {
    const text = combinedValue(request.fields, 'signature')
    // A Signature beside Signature-Input is one of RFC 9421.
    if (text === undefined || combinedValue(request.fields, 'signature-input') !== undefined) return []
    const parameters = parseParameters(text)
    if (parameters === undefined) return 'Signature must be a list that names each parameter once'
    const keyid = parameters.get('keyId')
    const value = Buffer.from(parameters.get('signature') ?? '', 'base64')
    if (keyid === undefined || value.length === 0 || value.toString('base64') !== parameters.get('signature'))
      return 'Signature has no keyId, or no signature in base64'
    // The example of the guidelines has capitals here.
    const covered = (parameters.get('headers') ?? 'date').toLowerCase().split(' ')
    if (new Set(covered).size < covered.length) return 'Signature has a header twice'
    const signature = { keyid, algorithm: parameters.get('algorithm'), covered, value }
    return [{ keyid, verify: (terms) => verify(request, signature, terms) }]
  },
  challenge: () => ['WWW-Authenticate', `Signature realm="api", headers="${REQUIRED.join(' ')}"`],
}

interface CavageSignature {
  readonly keyid: string
  readonly algorithm: string | undefined
  /** Names of headers, in lower case. */
  readonly covered: readonly string[]
  readonly value: Buffer
}

function parseParameters(text: string): ReadonlyMap<string, string> | undefined {
  const parameters = new Map<string, string>()
  PARAMETER.lastIndex = 0
  for (let at = 0; at < text.length; at = PARAMETER.lastIndex) {
    const [, name = '', quoted, number = ''] = PARAMETER.exec(text) ?? []
    if (name === '' || parameters.has(name)) return undefined
    parameters.set(name, quoted ?? number)
  }
  return text.endsWith(',') ? undefined : parameters
}

function verify(
  request: UnverifiedRequest,
  signature: CavageSignature,
  { signer: { profile }, key, nowMs }: Terms,
): HeadVerification {
  if (profile.form !== 'berlin-group') return { fault: OTHER_FORM }
  const { fields, keyHeader } = request
  const { algorithm, covered, value } = signature
  const whenSent = keyHeader === undefined ? WHEN_SENT : [...WHEN_SENT, keyHeader]
  const sent = whenSent.filter((name) => combinedValue(fields, name) !== undefined)
  const missing = [...REQUIRED, ...sent].find((name) => !covered.includes(name))
  if (missing !== undefined) return { fault: plain('uncovered', `The signature must cover ${missing}`) }
  const date = combinedValue(fields, 'date') ?? ''
  const dateMs = Date.parse(date)
  // Only IMF-fixdate is accepted (RFC 9110 section 5.6.7).
  if (Number.isNaN(dateMs) || new Date(dateMs).toUTCString() !== date)
    return { fault: plain('malformed', 'Date must be one date of HTTP') }
  const stale = faultOfAge(dateMs, profile, nowMs)
  if (stale !== undefined) return { fault: stale }
  if (algorithm !== 'rsa-sha256')
    return { fault: plain('unsupported', 'The algorithm of the signature must be rsa-sha256') }
  const fault = faultOfCertificate(fields, signature, { key, nowMs })
  if (fault !== undefined) return { fault }
  const reaching = { ...request, fields: withoutNominated(fields) }
  const lines = covered.flatMap((name) => lineOf(reaching, name) ?? [])
  const isWhole = lines.length === covered.length
  if (!isWhole || key.checks.get('RS256')?.({ signed: lines.join('\n'), signature: value }) !== true)
    return { fault: { reason: 'mismatch', cause: 'the signed headers differ, or another key signed them' } }
  const digest = combinedValue(fields, 'digest') ?? ''
  const unique = `id ${combinedValue(fields, 'x-request-id')}`
  return {
    head: {
      unique,
      faultOf: (body, bodyMs) => faultOfAge(dateMs, profile, bodyMs) ?? faultOfDigest(digest, body),
    },
  }
}

/** A line of the signed text (draft-cavage-http-signatures-12 section 2.3). */
function lineOf({ method, target, fields }: UnverifiedRequest, name: string): string | undefined {
  if (name === TARGET) return `${TARGET}: ${method.toLowerCase()} ${target}`
  const value = combinedValue(fields, name)
  return value === undefined ? undefined : `${name}: ${value}`
}

/** Compares the certificate that was sent with the one in `x5c` of the key. The issuer is not checked. */
function faultOfCertificate(
  fields: UnverifiedRequest['fields'],
  { keyid }: CavageSignature,
  { key: { certificate }, nowMs }: Pick<Terms, 'key' | 'nowMs'>,
): SignatureFault | undefined {
  if (certificate === undefined)
    return { reason: 'mismatch', cause: 'the key has no certificate of its own in x5c' }
  const sent = combinedValue(fields, 'tpp-signature-certificate')
  if (sent === undefined) return plain('malformed', 'The request must have TPP-Signature-Certificate')
  if (sent.replace(ARMOUR, '') !== certificate.raw.toString('base64'))
    return { reason: 'mismatch', cause: 'TPP-Signature-Certificate is not that of the key' }
  if (nowMs < certificate.validFromDate.getTime() || nowMs > certificate.validToDate.getTime())
    return plain('stale', 'The certificate in TPP-Signature-Certificate is not valid now')
  const [, serial = ''] = /^SN=0*([0-9A-F]+),/i.exec(keyid) ?? []
  if (serial.toUpperCase() === certificate.serialNumber.replace(/^0+/, '').toUpperCase()) return undefined
  return plain(
    'malformed',
    'The keyId must be SN= and the number of the certificate, then CA= and its issuer',
  )
}

function faultOfDigest(digest: string, body: Buffer): SignatureFault | undefined {
  const [, name = '', value] = DIGEST.exec(digest) ?? []
  const algorithm = HASHES[name.toLowerCase()]
  if (algorithm !== undefined && hash(algorithm, body, 'base64') === value) return undefined
  return plain('digest_mismatch', 'Digest must be SHA-256 or SHA-512 of the body, one of them alone')
}

/** Signs a response as clients sign requests: the guidelines have no other way. Undefined: there is no RSA key. */
export function signBerlinResponse(
  signer: MessageSigner,
  { body = Buffer.alloc(0), requestId }: UnsignedResponse,
): SignedResponse | undefined {
  const digest = `SHA-256=${hash('sha256', body, 'base64')}`
  const value = signer.signAs('RS256', `digest: ${digest}\nx-request-id: ${requestId}`)?.toString('base64')
  if (value === undefined) return undefined
  const parameters = `keyId="${signer.keyId}",algorithm="rsa-sha256",headers="digest x-request-id"`
  return { lines: `Digest: ${digest}\r\nSignature: ${parameters},signature="${value}"\r\n` }
}
