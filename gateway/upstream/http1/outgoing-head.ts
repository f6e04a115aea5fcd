import { isToken } from '../../edge/syntax/characters.ts'
import { theOnly, type WrittenFields, writtenFields } from '../common-fields.ts'
import { checkRequestLine } from '../message-head.ts'
import { METHODS_WITH_BODY, mayLeaveBody } from '../request-body.ts'
import { hostOf } from '../upstream-address.ts'
import type { UpstreamRequest } from '../upstream-client.ts'

const NO_FIELDS: WrittenFields = { lines: '', host: undefined, contentLength: undefined }

/**
 * The head of a request, latin1, with the empty line after it (RFC 9112 sections 3, 6 and 9).
 *
 * @param upstream as configured
 * @throws TypeError when the request cannot be sent
 */
export function requestHead(request: UpstreamRequest, upstream: string): string {
  const { method, target, fields, common } = request
  checkRequestLine(method, target)
  const own = writtenFields(fields)
  const shared = common?.written ?? NO_FIELDS
  const host = request.namesTarget === true ? hostOf(upstream) : theOnly('Host', shared.host, own.host)
  const length = theOnly('Content-Length', shared.contentLength, own.contentLength)
  const framing = length === undefined ? framingWithoutLength(request) : lengthField(request, length)
  const start = `${method} ${target} HTTP/1.1\r\nhost: ${host ?? ''}\r\n`
  return `${start}${connectionFields(request)}${shared.lines}${own.lines}${framing}\r\n`
}

function connectionFields({ method, body, upgrade }: UpstreamRequest): string {
  if (upgrade === undefined)
    return mayLeaveBody(method, body !== null) ? 'connection: close\r\n' : 'connection: keep-alive\r\n'
  const [protocol = '', version] = upgrade.split('/', 2)
  if (!isToken(protocol) || (version !== undefined && !isToken(version)))
    throw new TypeError('an upgrade to a malformed protocol name')
  return `connection: upgrade\r\nupgrade: ${upgrade}\r\n`
}

function lengthField({ body }: UpstreamRequest, value: string): string {
  const bytes = /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN
  if (!Number.isSafeInteger(bytes)) throw new TypeError('a Content-Length that is not a number of bytes')
  if (bytes > 0 && body === null) throw new TypeError('a Content-Length without a body')
  // Some recipients take leading zeros for octal.
  return `content-length: ${bytes}\r\n`
}

function framingWithoutLength({ method, body }: UpstreamRequest): string {
  if (body !== null) return 'transfer-encoding: chunked\r\n'
  // RFC 9110 section 8.6.
  return METHODS_WITH_BODY.has(method) ? 'content-length: 0\r\n' : ''
}
