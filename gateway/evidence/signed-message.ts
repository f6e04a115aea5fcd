import { readKey, type VerificationKey } from '../auth/keys/verification-key.ts'
import { digestFault } from '../auth/signatures/content-digest.ts'
import type { SignatureFacts } from '../auth/signatures/presented-signatures.ts'
import { signatureBase } from '../auth/signatures/signature-base.ts'
import { type MessageSignature, readSignatures } from '../auth/signatures/signature-fields.ts'
import type { OrFault } from '../auth/tokens/verification.ts'
import { RequestLines } from '../edge/http1/request-reader.ts'
import { readRequestHeaders } from '../edge/rules/request-headers.ts'
import { originForm } from '../edge/rules/request-target.ts'
import type { Field } from '../edge/syntax/field.ts'
import { HeadParser } from '../edge/syntax/head-parser.ts'
import type { AuditLine } from './records/audit-line.ts'

/** A request as its client has sent it, or would have over HTTP/1.1. */
interface SentRequest {
  readonly method: string
  readonly target: string
  readonly fields: readonly Field[]
  readonly body: Buffer
}

const MAX_FIELDS = 4096
const TARGET = /^(?:\/|https?:\/\/)/i
const TEXTS = ['label', 'keyId', 'thumbprint', 'algorithm', 'publicUrl', 'input', 'value'] as const

/** Reads a file: request line and headers with CR LF, an empty line, and the body to the end of the file. Never throws. */
export function readRequest(bytes: Buffer): OrFault<{ readonly request: SentRequest }, string> {
  const lines = new RequestLines()
  const head = new HeadParser(lines, { maxBytes: bytes.length, maxFields: MAX_FIELDS })
  head.begin()
  let at = 0
  while (at < bytes.length && !head.whole && head.fault === undefined)
    at += head.readBytes(bytes, at, bytes.length)
  if (!head.whole) return { fault: `its head has ${head.fault ?? 'no empty line at its end'}` }
  const { method, target } = lines
  const { fields } = head
  if (!TARGET.test(target)) return { fault: 'its target is neither a path nor an http URI' }
  const body = bytes.subarray(at)
  const { fault, hasBody, contentLength } = readRequestHeaders(fields, '1.1', MAX_FIELDS)
  if (fault !== undefined) return { fault: fault.detail }
  if (hasBody && contentLength === undefined)
    return { fault: 'its body is in chunks: write the body itself, and no Transfer-Encoding' }
  if (contentLength !== undefined && contentLength !== body.length)
    return { fault: `its Content-Length is ${contentLength}, and ${body.length} bytes follow its head` }
  return { request: { method, target, fields, body } }
}

/** The signature of an API_REQUEST; undefined where it has none that is whole. */
export function signatureIn({ signature }: AuditLine): SignatureFacts | undefined {
  if (typeof signature !== 'object' || signature === null) return undefined
  const facts = signature as Record<keyof SignatureFacts, unknown>
  const isWhole = TEXTS.every((name) => typeof facts[name] === 'string')
  const hasDigest = facts.digest === undefined || typeof facts.digest === 'string'
  return isWhole && hasDigest ? (facts as SignatureFacts) : undefined
}

/** The key of a SIGNER_KEY, if it is that of the signature by its own thumbprint. */
export function keyIn(
  { type, jwk }: AuditLine,
  { keyId, thumbprint }: SignatureFacts,
): VerificationKey | undefined {
  if (type !== 'SIGNER_KEY' || typeof jwk !== 'object') return undefined
  const { key } = readKey({ ...jwk, kid: keyId })
  return key?.thumbprint === thumbprint ? key : undefined
}

/** What is wrong with the body, as the record has its digest. */
export function bodyFault({ body }: SentRequest, { digest }: SignatureFacts): string | undefined {
  if (digest !== undefined) return digestFault(digest, body)
  return body.length === 0 ? undefined : 'the message has a body, and the request had none'
}

/** The signature of the record, as the message bears it. */
export function signatureBorne(
  { fields }: SentRequest,
  { label, input, value }: SignatureFacts,
): OrFault<{ readonly signature: MessageSignature }, string> {
  const signatures = readSignatures(fields)
  if (typeof signatures === 'string') return { fault: signatures }
  const borne = signatures.find((one) => one.label === label)
  const isRecorded = borne?.params === input && borne.value.toString('base64') === value
  return isRecorded && borne !== undefined
    ? { signature: borne }
    : { fault: `the message does not bear the signature ${label} of the record` }
}

/** Why the signature is not that of these bytes. The target counts as the message has it: the record may mask it. */
export function signatureFault(
  { method, target, fields }: SentRequest,
  signature: MessageSignature,
  { facts, key }: { readonly facts: SignatureFacts; readonly key: VerificationKey },
): string | undefined {
  const uri = facts.publicUrl + originForm(target)
  const { base, fault } = signatureBase({ method, target, uri, fields }, signature)
  if (fault !== undefined) return fault
  const [, check] = [...key.checks].find(([algorithm]) => algorithm === facts.algorithm) ?? []
  const isGood = check?.({ signed: base, signature: signature.value }) === true
  return isGood ? undefined : 'it is not of what the message has in these components, or not by this key'
}
