import type { Readable } from 'node:stream'
import { bufferBody } from '../../edge/bodies/buffered-body.ts'
import type { IncomingRequest } from '../../edge/http1/incoming-request.ts'
import { networkOf } from '../../edge/rules/network.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { bodyTooLarge, type Refusal, refusal } from '../../refusals.ts'

/** A body that must be in memory as a whole is never longer, whatever its route allows. */
const MAX_BODY_BYTES = 1024 * 1024
const OVERLOADED = refusal('overloaded', { headers: ['Retry-After', '1'], cause: 'bodies held in memory' })

/**
 * Reads the whole body into memory, as long as there is room. A body announced as too long is refused unread.
 *
 * @param owner among whose bodies the room is shared fairly
 */
export function readWholeBody(
  { load: { bodyRoom } }: Gateway,
  exchange: Exchange,
  { owner, source }: { readonly owner: string; readonly source: Readable },
): Refusal | Promise<Buffer | Refusal> {
  const { req, res, headers, route } = exchange
  const maxBytes = Math.min(route?.maxBodyBytes ?? MAX_BODY_BYTES, MAX_BODY_BYTES)
  const { contentLength } = headers
  if (contentLength !== undefined && contentLength > maxBytes) return bodyTooLarge(maxBytes)
  const waiting = { keyId: owner, network: networkOf(exchange.address), bytes: 0 }
  res.onClose(() => bodyRoom.release(waiting))
  // The sender waits for 100 (Continue), and the body is needed before anything else is decided.
  if (headers.expect !== undefined && req.version !== '1.0') res.writeInterim(100, '')
  const hasRoom = (bytes: number) => bodyRoom.take(waiting, bytes)
  return bufferBody(source, { maxBytes, contentLength, hasRoom }).then((body) => {
    if (body === 'too_large') return bodyTooLarge(maxBytes)
    if (body === 'no_room') return OVERLOADED
    return body === 'broken' ? refusal('malformed_request', { cause: 'the body broke off' }) : body
  })
}

/** The frame that ends a request without a body mostly comes with its head, or in the next packet. */
const EMPTY_END_MS = 50

/** Over HTTP/2 an empty frame may end a request of unknown length: whether this one has a body is not known yet. */
export function mayEndEmpty({ req, headers }: Exchange): boolean {
  return (
    req.version === '2' &&
    headers.contentLength === undefined &&
    headers.expect === undefined &&
    !req.complete &&
    req.body?.isEmpty === true
  )
}

/** Resolves with the first byte or the end, at the latest after 50 ms. Only one call for a request may be waiting at a time. */
export function firstByteOrEnd(req: IncomingRequest): Promise<undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), EMPTY_END_MS)
    req.whenBegun(() => {
      clearTimeout(timer)
      resolve(undefined)
    })
  })
}
