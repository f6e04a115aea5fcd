import { isText, isToken } from '../../http/syntax/characters.ts'
import { mayLeaveBody } from '../unread-body.ts'
import type { UpstreamCall } from '../upstream-client.ts'

/** Fields that say how this very message is carried: they are written here, or not at all. */
const REFUSED: ReadonlySet<string> = new Set([
  'connection',
  'expect',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
])
const EXPECTS_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

/**
 * Start line and fields of a request, with the empty line after them, to be written as latin1: what the call says, and
 * what HTTP adds for the connection (RFC 9112 sections 3, 6 and 9).
 *
 * @throws TypeError when the call cannot go on the wire; it names what is wrong with it.
 */
export function requestHead(call: UpstreamCall): string {
  const { method, target, fields } = call
  if (!isToken(method)) throw new TypeError('a method that is no token')
  if (!isTarget(target)) throw new TypeError('a target that is no path')
  let host: string | undefined
  let lines = ''
  let framing = ''
  for (const { lower, value, line } of fields) {
    if (REFUSED.has(lower)) throw new TypeError(`${lower} belongs to one connection`)
    if (lower === 'host') {
      if (host !== undefined) throw new TypeError('more than one Host')
      host = value
    } else if (lower === 'content-length') {
      if (framing !== '') throw new TypeError('more than one Content-Length')
      framing = lengthField(call, value)
    } else lines += line
  }
  if (framing === '') framing = framingWithoutLength(call)
  const start = `${method} ${target} HTTP/1.1\r\nhost: ${host ?? ''}\r\n`
  return `${start}${connectionFields(call)}${lines}${framing}\r\n`
}

function connectionFields({ method, body, upgrade }: UpstreamCall): string {
  if (upgrade !== undefined) return upgradeFields(upgrade)
  return mayLeaveBody(method, body !== null) ? 'connection: close\r\n' : 'connection: keep-alive\r\n'
}

/** Origin form, of visible characters only (RFC 9112 section 3.2.1); bytes above ASCII go as they are. */
function isTarget(target: string): boolean {
  return target.startsWith('/') && !target.includes(' ') && !target.includes('\t') && isText(target)
}

function lengthField({ body }: UpstreamCall, value: string): string {
  const bytes = /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN
  if (!Number.isSafeInteger(bytes)) throw new TypeError('a Content-Length that is no number of bytes')
  if (bytes > 0 && body === null) throw new TypeError('a Content-Length without a body')
  // As a number: zeros before it mean eight to some.
  return `content-length: ${bytes}\r\n`
}

function framingWithoutLength({ method, body }: UpstreamCall): string {
  if (body !== null) return 'transfer-encoding: chunked\r\n'
  // RFC 9110 section 8.6: where a body is usual, its absence is said.
  return EXPECTS_BODY.has(method) ? 'content-length: 0\r\n' : ''
}

function upgradeFields(upgrade: string): string {
  const [protocol = '', version] = upgrade.split('/', 2)
  if (!isToken(protocol) || (version !== undefined && !isToken(version)))
    throw new TypeError('an upgrade to what is no protocol')
  return `connection: upgrade\r\nupgrade: ${upgrade}\r\n`
}
