import type { Readable } from 'node:stream'
import { valueIn } from '../http/syntax/field.ts'
import type { UpstreamRequest } from './upstream-client.ts'

/** Methods that give a body its meaning: a service that accepts such a request has read it. */
export const METHODS_WITH_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

/**
 * Reads a body at once when all of it has arrived, as is so for most requests: a buffer costs
 * less than a stream. The source still emits `end` and `close`.
 *
 * @param bytes its announced length; undefined when not known.
 * @returns undefined when not all of it has arrived; the source is untouched.
 */
export function takeWhole(source: Readable, bytes: number | undefined): Buffer | undefined {
  if (bytes === undefined || bytes === 0 || source.readableLength !== bytes) return undefined
  // Already being read, or broken off: stream it.
  if (source.readableFlowing === true || source.destroyed) return undefined
  // Without the length, `read` may return the first piece only.
  const body: Buffer | null = source.read(bytes)
  source.resume()
  return body ?? undefined
}

/** @returns undefined when there is none. */
export function contentLength({ common, fields }: UpstreamRequest): number | undefined {
  const length = valueIn(common?.fields ?? [], 'content-length') ?? valueIn(fields, 'content-length')
  return length === undefined ? undefined : Number(length)
}

/**
 * Whether a service may leave the request body unread whatever it responds, because the body has no meaning for this
 * method (RFC 9110 sections 9.3.1, 9.3.2, 9.3.5). A careless service parses the unread rest as the next request, and
 * its response would go to another caller. So this request must be the last of its connection.
 */
export function mayLeaveBody(method: string, hasBody: boolean): boolean {
  return hasBody && !METHODS_WITH_BODY.has(method)
}

/** Whether the status proves that the body was read. A service may refuse a request after its head alone. */
export function hasReadBody(method: string, status: number): boolean {
  return METHODS_WITH_BODY.has(method) && status >= 200 && status < 300
}
