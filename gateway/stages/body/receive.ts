import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { METHODS_WITH_BODY } from '../../upstream/request-body.ts'
import { firstByteOrEnd, mayEndEmpty } from './whole-body.ts'

/** Enough for a form or a JSON document. */
const MAX_BYTES = 16 * 1024

/**
 * Waits for a short body before the request takes a permit or counts, so that a slow client only holds its own connection.
 * Longer ones, those of unknown length and those with `Expect: 100-continue` are streamed. Over HTTP/2 it waits a moment for
 * the end of an empty GET: many services refuse a GET with a body.
 */
export function receive(_gateway: Gateway, exchange: Exchange): undefined | Promise<undefined> {
  const { req, headers } = exchange
  const { contentLength, expect } = headers
  if (req.complete || expect !== undefined) return undefined
  if (contentLength !== undefined) return contentLength > MAX_BYTES ? undefined : req.whenComplete()
  return mayEndEmpty(exchange) && !METHODS_WITH_BODY.has(req.method) ? firstByteOrEnd(req) : undefined
}
