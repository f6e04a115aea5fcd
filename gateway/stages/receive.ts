import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'

/** Of a body that is waited for: what a form or a JSON document has. */
const MAX_BYTES = 16 * 1024

/**
 * Waits for a short body before anything is spent on its request, a place or one of what a limit allows: a client that
 * never ends it only holds its own connection. A longer one, or one of unknown length, is streamed. So is one whose client
 * waits to be told to send it, which is not done before all stages have let the request through.
 */
export function receive(_gateway: Gateway, { req, headers }: Exchange): undefined | Promise<undefined> {
  const { contentLength, expect } = headers
  if (req.complete || contentLength === undefined || contentLength > MAX_BYTES) return undefined
  return expect === undefined ? req.whenComplete() : undefined
}
