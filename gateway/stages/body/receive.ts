import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'

/** Longest body that is awaited: enough for a form or a JSON document. */
const MAX_BYTES = 16 * 1024

/**
 * Waits for a short body before the request takes an upstream place or counts against a limit, so that a client that
 * sends slowly only holds its own connection. Longer bodies, and those of unknown length, are streamed. So are those
 * with `Expect: 100-continue`, which the client sends only after all stages have let the request through.
 */
export function receive(_gateway: Gateway, { req, headers }: Exchange): undefined | Promise<undefined> {
  const { contentLength, expect } = headers
  if (req.complete || contentLength === undefined || contentLength > MAX_BYTES) return undefined
  return expect === undefined ? req.whenComplete() : undefined
}
