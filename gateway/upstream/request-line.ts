import { isToken } from '../edge/syntax/characters.ts'

/** White space would let two readers see two different targets. Bytes above ASCII are sent unchanged. */
const NOT_VISIBLE = /[^\x21-\x7e\x80-\xff]/

/**
 * Checks what an upstream is sent as method and target, in HTTP/1.1 and in HTTP/2: a token, and a target in origin form (RFC 9112
 * section 3.2.1).
 *
 * @throws TypeError that says what is wrong.
 */
export function checkRequestLine(method: string, target: string): void {
  if (!isToken(method)) throw new TypeError('a method that is not a token')
  if (!target.startsWith('/') || NOT_VISIBLE.test(target)) throw new TypeError('a target that is not a path')
}
