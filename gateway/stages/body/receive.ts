import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { METHODS_WITH_BODY } from '../../upstream/request-body.ts'
import { firstByteOrEnd, mayEndEmpty } from './whole-body.ts'

/** Longest body that is awaited: enough for a form or a JSON document. */
const MAX_BYTES = 16 * 1024

/**
 * Waits for a short body before the request takes an upstream place or counts against a limit, so that a client that
 * sends slowly only holds its own connection. Longer bodies, and those of unknown length, are streamed. So are those
 * with `Expect: 100-continue`, which the client sends only after all stages have let the request through. Over HTTP/2 an
 * empty frame may end a GET: waits a moment for that or for a first byte, because many services refuse a GET with a body.
 */
export function receive(_gateway: Gateway, exchange: Exchange): undefined | Promise<undefined> {
  const { req, headers } = exchange
  const { contentLength, expect } = headers
  if (req.complete || expect !== undefined) return undefined
  if (contentLength !== undefined) return contentLength > MAX_BYTES ? undefined : req.whenComplete()
  return mayEndEmpty(exchange) && !METHODS_WITH_BODY.has(req.method) ? firstByteOrEnd(req) : undefined
}
