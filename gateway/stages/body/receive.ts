import { digestFault } from '../../auth/signatures/content-digest.ts'
import { combinedValue } from '../../edge/syntax/field.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { andThen, type Outcome, type Refusal, refusal } from '../../refusals.ts'
import { METHODS_WITH_BODY } from '../../upstream/request-body.ts'
import { firstByteOrEnd, mayEndEmpty, wholeBody } from './whole-body.ts'

/** Longest body to wait for: enough for a form or a JSON document. */
const MAX_BYTES = 16 * 1024

/**
 * Waits for a short body before the request takes a permit or is counted, so that a slow client holds only its
 * connection. Over HTTP/2 it waits a moment for the end of an empty GET, because many services refuse a GET with a
 * body. Reads any body that a signature of the gateway covers.
 */
export function receive(gateway: Gateway, exchange: Exchange): Outcome {
  const { req, headers, route } = exchange
  const isVouchedFor =
    route?.signsRequests === true ||
    (route?.signsResponses === true && req.fields.some(({ lower }) => lower === 'content-digest'))
  if (isVouchedFor)
    return andThen(wholeBody(gateway, exchange), (body) =>
      Buffer.isBuffer(body) ? compareDigest(exchange, body) : body,
    )
  const { contentLength, expect } = headers
  if (req.complete || expect !== undefined) return undefined
  if (contentLength !== undefined) return contentLength > MAX_BYTES ? undefined : req.whenComplete()
  const mayBeEmptyGet = req.version === '2' && mayEndEmpty(exchange) && !METHODS_WITH_BODY.has(req.method)
  return mayBeEmptyGet ? firstByteOrEnd(req) : undefined
}

/** Refuses a wrong digest of the client, because a signature of the gateway will cover it. */
function compareDigest({ req }: Exchange, body: Buffer): Refusal | undefined {
  const sent = combinedValue(req.fields, 'content-digest')
  const cause = sent === undefined ? undefined : digestFault(sent, body)
  return cause === undefined ? undefined : refusal('digest_mismatch', { cause })
}
