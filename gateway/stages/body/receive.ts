import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import type { IncomingRequest } from '../../http/server/incoming-request.ts'
import { METHODS_WITH_BODY } from '../../upstream/request-body.ts'

/** Longest body that is awaited: enough for a form or a JSON document. */
const MAX_BYTES = 16 * 1024
/** How long it may take to show whether a GET has a body. The frame that ends one mostly comes with its head, or in the next packet. */
const EMPTY_END_MS = 50

/**
 * Waits for a short body before the request takes an upstream place or counts against a limit, so that a client that
 * sends slowly only holds its own connection. Longer bodies, and those of unknown length, are streamed. So are those
 * with `Expect: 100-continue`, which the client sends only after all stages have let the request through. Over HTTP/2 an
 * empty frame may end a GET: waits a moment for that or for a first byte, because many services refuse a GET with a body.
 */
export function receive(_gateway: Gateway, { req, headers }: Exchange): undefined | Promise<undefined> {
  const { contentLength, expect } = headers
  if (req.complete || expect !== undefined) return undefined
  if (contentLength === undefined) return mayEndEmpty(req) ? firstByteOrEnd(req) : undefined
  return contentLength > MAX_BYTES ? undefined : req.whenComplete()
}

function mayEndEmpty({ version, method, body }: IncomingRequest): boolean {
  return version === '2' && !METHODS_WITH_BODY.has(method) && body?.isEmpty === true
}

function firstByteOrEnd(req: IncomingRequest): Promise<undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), EMPTY_END_MS)
    req.whenBegun(() => {
      clearTimeout(timer)
      resolve(undefined)
    })
  })
}
