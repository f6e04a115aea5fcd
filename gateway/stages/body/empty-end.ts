import type { IncomingRequest } from '../../edge/http1/incoming-request.ts'
import type { Exchange } from '../../exchange.ts'

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
