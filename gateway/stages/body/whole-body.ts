import type { Readable } from 'node:stream'
import { bufferBody, takeWhole } from '../../edge/bodies/buffered-body.ts'
import type { IncomingRequest } from '../../edge/http1/incoming-request.ts'
import { isGrpc } from '../../edge/rules/grpc.ts'
import { networkOf } from '../../edge/rules/network.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { andThen, bodyTooLarge, type Refusal, refusal } from '../../refusals.ts'

/** A body this small that came at once needs no room, because the rest of its request takes more memory. */
const SMALL_BYTES = 1024
/** Bound for a body that is read whole, whatever its route allows. */
const MAX_BODY_BYTES = 1024 * 1024
export const NO_BODY = Buffer.alloc(0)
const OVERLOADED = refusal('overloaded', {
  headers: ['Retry-After', '1'],
  cause: 'too many bodies are held in memory',
})

const GRPC_CALL = refusal('unsupported_media_type', {
  detail: 'The body is needed whole here, but a call of gRPC may go on without an end.',
})

/**
 * Reads the whole body into memory, if there is room.
 * @param owner the room is shared fairly among owners
 * @param maxBytes a bound besides that of the route
 */
export function readWholeBody(
  { load: { bodyRoom } }: Gateway,
  exchange: Exchange,
  {
    owner,
    source,
    maxBytes: bound = MAX_BODY_BYTES,
  }: { readonly owner: string; readonly source: Readable; readonly maxBytes?: number | undefined },
): Buffer | Refusal | Promise<Buffer | Refusal> {
  const { req, res, headers, route } = exchange
  if (isGrpc(req)) return GRPC_CALL
  const maxBytes = Math.min(route?.maxBodyBytes ?? MAX_BODY_BYTES, bound)
  const { contentLength } = headers
  if (contentLength !== undefined && contentLength > maxBytes) return bodyTooLarge(maxBytes)
  const whole = takeWhole(source, contentLength)
  if (whole !== undefined && whole.length <= SMALL_BYTES) return whole
  const waiting = { keyId: owner, network: networkOf(exchange.address), bytes: 0 }
  const release = () => bodyRoom.release(waiting)
  res.onClose(() => {
    if (exchange.orphan === undefined) release()
    else exchange.orphan.onEnd = release
  })
  if (whole !== undefined) return bodyRoom.take(waiting, whole.length) ? whole : OVERLOADED
  // The client may wait for the 100 before it sends the body, which is needed now.
  if (headers.expect !== undefined && req.version !== '1.0') res.writeInterim(100, '')
  const hasRoom = (bytes: number) => bodyRoom.take(waiting, bytes)
  return bufferBody(source, { maxBytes, contentLength, hasRoom }).then((body) => {
    if (body === 'too_large') return bodyTooLarge(maxBytes)
    if (body === 'no_room') return OVERLOADED
    return body === 'broken' ? refusal('malformed_request', { cause: 'the body broke off' }) : body
  })
}

/** Reads the body unless it is in memory. */
export function wholeBody(
  gateway: Gateway,
  exchange: Exchange,
  maxBytes?: number,
): Buffer | Refusal | Promise<Buffer | Refusal> {
  const { bufferedBody, headers, req, principal } = exchange
  if (bufferedBody !== undefined) return bufferedBody
  if (!headers.hasBody || req.body === null) return NO_BODY
  const owner = principal?.key ?? networkOf(exchange.address)
  const read = readWholeBody(gateway, exchange, { owner, source: req.body, maxBytes })
  return andThen(read, (body) => {
    if (Buffer.isBuffer(body)) exchange.bufferedBody = body
    return body
  })
}

/** Time to wait for an empty last frame or chunk. It mostly comes with the head, or in the next packet. */
const EMPTY_END_MS = 50

/** True when an empty frame or chunk may end a request of unknown length. */
export function mayEndEmpty({ req, headers }: Exchange): boolean {
  return (
    headers.contentLength === undefined &&
    headers.expect === undefined &&
    !req.complete &&
    req.body?.isEmpty === true
  )
}

/** Resolves at the first byte or the end of the body, or after `EMPTY_END_MS`. Only one call for a request may wait. */
export function firstByteOrEnd(req: IncomingRequest): Promise<undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), EMPTY_END_MS)
    req.whenBegun(() => {
      clearTimeout(timer)
      resolve(undefined)
    })
  })
}
