import { isToken } from '../edge/syntax/characters.ts'

/** RFC 9110 section 15. */
export function isStatus(status: number): boolean {
  return status >= 100 && status <= 599
}

/** Limit of the bytes of a head, and of trailers. */
export const MAX_RESPONSE_HEAD_BYTES = 64 * 1024

export const MAX_INTERIM = 32

/** Reads a Content-Length: one number, below 2^53 (RFC 9112 section 6.3). @returns undefined for another value */
export function lengthIn(value: string): number | undefined {
  const bytes = /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN
  return Number.isSafeInteger(bytes) ? bytes : undefined
}

/** With white space, two readers could see different targets. Bytes above ASCII are sent unchanged. */
const NOT_VISIBLE = /[^\x21-\x7e\x80-\xff]/

/** @throws TypeError unless the method is a token and the target in origin form (RFC 9112 section 3.2.1) */
export function checkRequestLine(method: string, target: string): void {
  if (!isToken(method)) throw new TypeError('a method that is not a token')
  if (!target.startsWith('/') || NOT_VISIBLE.test(target)) throw new TypeError('a target that is not a path')
}
