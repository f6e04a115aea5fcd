import { isText, isToken, withoutSpaceAround } from '../../edge/syntax/characters.ts'
import { Field } from '../../edge/syntax/field.ts'
import { CONNECTION_FIELDS } from '../common-fields.ts'
import { checkRequestLine, isStatus, lengthIn, MAX_RESPONSE_HEAD_BYTES } from '../message-head.ts'
import { hostOf } from '../upstream-address.ts'
import type { UpstreamRequest } from '../upstream-client.ts'

/** RFC 9113 section 8.2.2. Only `requestHead` writes `te`. */
const REFUSED: ReadonlySet<string> = new Set([...CONNECTION_FIELDS, 'http2-settings', 'te'])

/**
 * Makes the head without `:scheme`, as a flat list of names and values (RFC 9113 section 8.3.1).
 * @throws TypeError when the request cannot be sent
 */
export function requestHead(request: UpstreamRequest, upstream: string): string[] {
  const { method, target, common, fields, acceptsTrailers } = request
  checkRequestLine(method, target)
  const head = [':method', method, ':path', target]
  const others: string[] = []
  let host: string | undefined
  for (const { lower, value } of [...(common?.fields ?? []), ...fields]) {
    if (REFUSED.has(lower)) throw new TypeError(`${lower} belongs to one connection`)
    if (lower !== 'host') others.push(lower, value)
    else if (host !== undefined) throw new TypeError('more than one Host')
    else host = value
  }
  if (request.namesTarget === true) host = hostOf(upstream)
  if (host !== undefined) head.push(':authority', host)
  if (acceptsTrailers === true) others.push('te', 'trailers')
  return head.concat(others)
}

/** @param flat names and values, the status first */
export function readResponseHead(flat: readonly string[]): { status: number; fields: Field[] } | string {
  const status = flat[0] === ':status' ? Number(flat[1]) : 0
  if (!isStatus(status)) return 'no status, or one that is not defined'
  const fields = readFields(flat.slice(2))
  if (typeof fields === 'string') return fields
  const lengths = fields.filter(({ lower }) => lower === 'content-length')
  if (lengths.length > 1 || lengths.some(({ value }) => lengthIn(value) === undefined))
    return 'a Content-Length that is not one number of bytes'
  return { status, fields }
}

/** @returns the fields, or what is wrong with them */
export function readFields(flat: readonly string[]): Field[] | string {
  const fields: Field[] = []
  let bytes = 0
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const name = flat[i] as string
    const value = withoutSpaceAround(flat[i + 1] as string)
    bytes += name.length + value.length + 4
    if (bytes > MAX_RESPONSE_HEAD_BYTES) return `more than ${MAX_RESPONSE_HEAD_BYTES} bytes of fields`
    if (!isToken(name) || !isText(value)) return 'a field with an invalid name or value'
    if (REFUSED.has(name)) return `${name} in HTTP/2`
    fields.push(new Field(name, value))
  }
  return fields
}
