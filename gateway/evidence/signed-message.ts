import { readKey, type VerificationKey } from '../auth/keys/verification-key.ts'
import { digestFault } from '../auth/signatures/content-digest.ts'
import type { SignatureFacts } from '../auth/signatures/presented-signatures.ts'
import { signatureBase } from '../auth/signatures/signature-base.ts'
import { type MessageSignature, readSignatures } from '../auth/signatures/signature-fields.ts'
import { readDetachedJws, signedText } from '../auth/signatures/uk-jws.ts'
import type { OrFault } from '../auth/tokens/verification.ts'
import { RequestLines } from '../edge/http1/request-reader.ts'
import { readRequestHeaders } from '../edge/rules/request-headers.ts'
import { originForm } from '../edge/rules/request-target.ts'
import { combinedValue, type Field } from '../edge/syntax/field.ts'
import { HeadParser, type HeadReader } from '../edge/syntax/head-parser.ts'
import { plural } from '../terminal/printable.ts'
import { ResponseLines } from '../upstream/http1/response-parser.ts'
import type { AuditLine } from './records/audit-line.ts'

/** A message in the form that it has over HTTP/1.1. */
interface Sent {
  readonly fields: readonly Field[]
  readonly body: Buffer
}

interface SentRequest extends Sent {
  readonly method: string
  readonly target: string
}

interface SentResponse extends Sent {
  readonly status: number
}

const MAX_FIELDS = 4096
const TARGET = /^(?:\/|https?:\/\/)/i
const TEXTS = ['label', 'keyId', 'thumbprint', 'algorithm', 'publicUrl', 'input', 'value'] as const

/** Reads a request line and headers with CR LF, an empty line, and the body up to the end. Never throws. */
export function readRequest(bytes: Buffer): OrFault<{ readonly request: SentRequest }, string> {
  const lines = new RequestLines()
  const { sent, fault } = readSent(bytes, lines)
  if (sent === undefined) return { fault }
  const { method, target } = lines
  return TARGET.test(target)
    ? { request: { method, target, ...sent } }
    : { fault: 'its target is neither a path nor an http URI' }
}

/** See `readRequest`. */
export function readResponse(bytes: Buffer): OrFault<{ readonly response: SentResponse }, string> {
  const lines = new ResponseLines()
  const { sent, fault } = readSent(bytes, lines)
  return sent === undefined ? { fault } : { response: { status: lines.status, ...sent } }
}

function readSent(bytes: Buffer, lines: HeadReader): OrFault<{ readonly sent: Sent }, string> {
  const head = new HeadParser(lines, { maxBytes: bytes.length, maxFields: MAX_FIELDS })
  head.begin()
  let at = 0
  while (at < bytes.length && !head.whole && head.fault === undefined)
    at += head.readBytes(bytes, at, bytes.length)
  if (!head.whole) return { fault: `its head has ${head.fault ?? 'no empty line at its end'}` }
  const { fields } = head
  const body = bytes.subarray(at)
  const { fault, hasBody, contentLength } = readRequestHeaders(fields, '1.1', MAX_FIELDS)
  if (fault !== undefined) return { fault: fault.detail }
  if (hasBody && contentLength === undefined)
    return { fault: 'its body is in chunks: write the body itself, and no Transfer-Encoding' }
  // A response to HEAD has a Content-Length, but no body.
  if (contentLength !== undefined && contentLength !== body.length && body.length > 0)
    return {
      fault: `its Content-Length is ${contentLength}, but ${plural(body.length, 'byte follows', 'bytes follow')} its head`,
    }
  return { sent: { fields, body } }
}

export function signatureIn({ signature }: AuditLine): SignatureFacts | undefined {
  if (typeof signature !== 'object' || signature === null) return undefined
  const facts = signature as Record<keyof SignatureFacts, unknown>
  const isWhole = TEXTS.every((name) => typeof facts[name] === 'string')
  const hasDigest = facts.digest === undefined || typeof facts.digest === 'string'
  return isWhole && hasDigest ? (facts as SignatureFacts) : undefined
}

/** The key of a SIGNER_KEY, if it has the signature's thumbprint. */
export function keyIn(
  { type, jwk }: AuditLine,
  { keyId, thumbprint }: SignatureFacts,
): VerificationKey | undefined {
  if (type !== 'SIGNER_KEY' || typeof jwk !== 'object') return undefined
  const { key } = readKey({ ...jwk, kid: keyId })
  return key?.thumbprint === thumbprint ? key : undefined
}

export function bodyFault({ body }: Sent, { digest }: SignatureFacts): string | undefined {
  if (digest !== undefined) return digestFault(digest, body)
  return body.length === 0 ? undefined : 'it has a body, but the signed message had none'
}

/** True for a detached JWS. The parameters of a signature of RFC 9421 begin with a list. */
function isJws({ params }: Pick<MessageSignature, 'params'>): boolean {
  return !params.startsWith('(')
}

/** Finds the recorded signature in the message. A detached JWS has no components. */
export function signatureBorne(
  { fields }: Sent,
  { label, input, value }: SignatureFacts,
): OrFault<{ readonly signature: MessageSignature }, string> {
  const signatures = isJws({ params: input }) ? jwsIn(fields, label) : readSignatures(fields)
  if (typeof signatures === 'string') return { fault: signatures }
  const borne = signatures.find((one) => one.label === label)
  const isRecorded = borne?.params === input && borne.value.toString('base64') === value
  return isRecorded && borne !== undefined
    ? { signature: borne }
    : { fault: `the message does not bear the signature ${label} of the record` }
}

function jwsIn(fields: readonly Field[], label: string): readonly MessageSignature[] | string {
  const jws = readDetachedJws(fields)
  if (jws === undefined || typeof jws === 'string') return jws ?? []
  const { protectedHeader: params, signature: value, iat } = jws
  return [{ label, components: [], covered: new Set(), params, value, created: Number(iat) }]
}

/** The signature of a response may cover the digest of the request's body. */
function requestFault({ fields, body }: Sent, { covered }: MessageSignature): string | undefined {
  if (covered.has('"content-digest";req'))
    return digestFault(combinedValue(fields, 'content-digest') ?? '', body)
  return body.length === 0
    ? undefined
    : "the response's signature does not cover the request's body: remove that body from the message"
}

/** Takes the target from the message, since the record may mask it. */
export function signatureFault(
  sent: { readonly request: SentRequest; readonly response: SentResponse | undefined },
  signature: MessageSignature,
  { facts, key }: { readonly facts: SignatureFacts; readonly key: VerificationKey },
): string | undefined {
  const request = { ...sent.request, uri: facts.publicUrl + originForm(sent.request.target) }
  const message = sent.response === undefined ? request : { ...sent.response, request }
  const jws = isJws(signature) ? readDetachedJws(sent.request.fields) : undefined
  const { base, fault } =
    typeof jws === 'object' ? { base: signedText(jws, sent.request.body) } : signatureBase(message, signature)
  if (fault !== undefined) return fault
  const unsigned = sent.response && requestFault(sent.request, signature)
  if (unsigned !== undefined) return unsigned
  const [, check] = [...key.checks].find(([algorithm]) => algorithm === facts.algorithm) ?? []
  const isGood = check?.({ signed: base, signature: signature.value }) === true
  return isGood ? undefined : 'the signed parts of the message differ, or another key signed them'
}
