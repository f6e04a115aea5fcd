import { type Field, fieldsOf } from '../http/syntax/field.ts'

/**
 * How the end of an answer's body is found (RFC 9112 section 6.3): `bounded` by its framing or because there is none,
 * by the end of the connection, or `faulty` when it cannot be passed on safely.
 */
export type BodyFraming = 'bounded' | 'until close' | 'faulty'

/** RFC 9110 section 15: others mean nothing to anybody. */
export function isStatus(status: number): boolean {
  return status >= 100 && status <= 599
}

/** Also of the trailers. */
export const MAX_RESPONSE_HEAD_BYTES = 64 * 1024

/** A raw header list as undici gives it: latin1, as received. */
export function receivedFields(rawHeaders: unknown): Field[] {
  return fieldsOf((rawHeaders as readonly Buffer[]).map((text) => text.toString('latin1')))
}

/** Other white space than spaces makes undici's parser hand the chunks on undecoded. */
const CHUNKED = /^ *chunked *$/i

/**
 * Judges what undici's parser leaves to its user:
 *
 * - A transfer coding other than exactly `chunked`, once, is not decoded by anybody, and would reach the client unnamed.
 * - A 204 must not frame a body (RFC 9110 section 8.6, RFC 9112 section 6.1); whoever does may also send one.
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

/** Whether a 101 switches to the protocol that was asked for, and to nothing else (RFC 9110 section 7.8). */
export function switchesTo(protocol: string, fields: readonly Field[]): boolean {
  let switched: string | undefined
  for (const { lower, value } of fields) {
    if (lower !== 'upgrade') continue
    if (switched !== undefined) return false
    switched = value.trim().toLowerCase()
  }
  return switched === protocol.toLowerCase()
}
