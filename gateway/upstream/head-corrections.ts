import { createRequire } from 'node:module'
import type { Socket } from 'node:net'

/** The part of undici's parser that hears of a head. */
interface Parser {
  readonly ptr: number
  readonly llhttp: { llhttp_get_http_major(ptr: number): number; llhttp_get_http_minor(ptr: number): number }
  onHeadersComplete(status: number, upgrade: boolean, shouldKeepAlive: boolean): number
}

// The symbol has no public name; undici is pinned to one version, and answers.test.ts guards both corrections.
const { kParser } = createRequire(import.meta.url)('undici/lib/core/symbols.js') as {
  readonly kParser: symbol
}

/**
 * Corrects what undici makes of two heads, on a connection that it has just taken over.
 *
 * - `100 Continue` that nobody asked for: RFC 9110 section 15.2 has a client take interim answers it did not expect.
 *   undici breaks the connection on a 100 but skips every other one, so it is shown a 102.
 * - HTTP/1.0: after an answer with Transfer-Encoding the connection must be closed (RFC 9112 section 6.1), and its
 *   Keep-Alive is not part of the standard; it is never used again.
 */
export function correctHeads(socket: Socket): void {
  const parser = (socket as unknown as Record<symbol, Parser>)[kParser]
  if (parser === undefined) throw new Error('undici has no parser on this connection')
  const onHeadersComplete = parser.onHeadersComplete
  parser.onHeadersComplete = function (status, upgrade, shouldKeepAlive) {
    const { llhttp, ptr } = this
    const isCurrent = llhttp.llhttp_get_http_major(ptr) === 1 && llhttp.llhttp_get_http_minor(ptr) === 1
    return onHeadersComplete.call(this, status === 100 ? 102 : status, upgrade, shouldKeepAlive && isCurrent)
  }
}
