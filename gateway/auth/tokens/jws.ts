import { parseCheckedJson } from '../../edge/bodies/checked-json.ts'
import type { Signed } from '../keys/signature.ts'

export type JsonObject = Readonly<Record<string, unknown>>

/** Not verified yet. */
export interface Jws extends Signed {
  readonly header: JsonObject
  readonly payload: JsonObject
}

/** Reads a compact JWS (RFC 7515 section 7.1) of a JSON object. A text says what is wrong. Never throws. */
export function parseJws(text: string, readHeader = decodeObject): Jws | string {
  const first = text.indexOf('.')
  const last = text.lastIndexOf('.')
  if (first === last || text.indexOf('.', first + 1) !== last) return 'not three parts'
  const signature = decodeBase64url(text.slice(last + 1))
  if (signature === undefined) return 'the signature is not base64url'
  const header = readHeader(text.slice(0, first))
  if (typeof header === 'string') return `the header ${header}`
  const payload = decodeObject(text.slice(first + 1, last))
  if (typeof payload === 'string') return `the payload ${payload}`
  return { header, payload, signed: text.slice(0, last), signature }
}

/** Reads a JSON object. A text says what is wrong, such as a member named twice (RFC 8725 section 2.4). */
export function decodeObject(part: string): JsonObject | string {
  const bytes = decodeBase64url(part)
  if (bytes === undefined) return 'is not base64url'
  const json = parseCheckedJson(bytes)
  if ('fault' in json) return json.fault
  return isJsonObject(json.value) ? json.value : 'is not a JSON object'
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Decodes base64url as JOSE writes it (RFC 7515 section 2). */
export function decodeBase64url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url')
  // Node's decoder also accepts padding, other alphabets and stray bits.
  return bytes.length > 0 && bytes.toString('base64url') === text ? bytes : undefined
}
