import { createRequire } from 'node:module'
import type { Socket } from 'node:net'

/** The part of undici's parser that gets each head. */
interface Parser {
  readonly ptr: number
  readonly llhttp: { llhttp_get_http_major(ptr: number): number; llhttp_get_http_minor(ptr: number): number }
  onHeadersComplete(status: number, upgrade: boolean, shouldKeepAlive: boolean): number
}

// The symbol has no public name; undici is pinned to one version, and contract/responses.test.ts guards both corrections.
const { kParser } = createRequire(import.meta.url)('undici/lib/core/symbols.js') as {
  readonly kParser: symbol
}

/**
 * Corrects how undici handles two kinds of head. Call it when undici has just taken over the connection.
 *
 * - Unexpected `100 Continue`: RFC 9110 section 15.2 has a client accept interim responses that it did not expect. undici
 *   closes the connection on a 100 but skips all others, so it is given a 102.
 * - HTTP/1.0: after a response with Transfer-Encoding the connection must be closed (RFC 9112 section 6.1), and Keep-Alive
 *   is not part of that standard; so the connection is never used again.
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
