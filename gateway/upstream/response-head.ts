import { type Field, fieldsOf } from '../http/syntax/field.ts'

/**
 * How the end of a response body is found (RFC 9112 section 6.3): `bounded` by its framing or because there is no body,
 * `until close` of the connection, or `faulty` when it cannot be passed on safely.
 */
export type BodyFraming = 'bounded' | 'until close' | 'faulty'

/** A status code that RFC 9110 section 15 defines a class for. */
export function isStatus(status: number): boolean {
  return status >= 100 && status <= 599
}

/** For the head, and again for the trailers. */
export const MAX_RESPONSE_HEAD_BYTES = 64 * 1024

/** The fields of undici's raw header list, in latin1 as received. */
export function receivedFields(rawHeaders: unknown): Field[] {
  return fieldsOf((rawHeaders as readonly Buffer[]).map((text) => text.toString('latin1')))
}

/** Spaces only: with other white space undici's parser does not decode the chunks. */
const CHUNKED = /^ *chunked *$/i

/**
 * Checks what undici's parser leaves to its user:
 *
 * - Only `chunked`, once, is decoded. Any other transfer coding would reach the client encoded and unnamed.
 * - A 204 must not frame a body (RFC 9110 section 8.6, RFC 9112 section 6.1); an upstream that does may also send one.
 */
export function bodyFraming(method: string, status: number, fields: readonly Field[]): BodyFraming {
  let framed = false
  for (const { lower, value } of fields) {
    if (lower === 'content-length') {
      if (framed || (status === 204 && Number(value) !== 0)) return 'faulty'
      framed = true
    } else if (lower === 'transfer-encoding') {
      if (framed || status === 204 || !CHUNKED.test(value)) return 'faulty'
      framed = true
    }
  }
  return framed || method === 'HEAD' || status === 204 || status === 304 ? 'bounded' : 'until close'
}

/** Whether a 101 switches to the requested protocol and no other (RFC 9110 section 7.8). */
export function switchesTo(protocol: string, fields: readonly Field[]): boolean {
  let switched: string | undefined
  for (const { lower, value } of fields) {
    if (lower !== 'upgrade') continue
    if (switched !== undefined) return false
    switched = value.trim().toLowerCase()
  }
  return switched === protocol.toLowerCase()
}
