import { isText, isToken } from '../../http1/characters.ts'
import type { UpstreamCall } from '../door.ts'

/** What kind of field a name stands for. */
type NameKind = 'ordinary' | 'host' | 'length' | 'refused'

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

/** Names come again and again; those of one process are few, unless somebody makes them up. */
const MAX_KNOWN_NAMES = 512
const knownNames = new Map<string, NameKind>()

/**
 * Start line and fields of a request, with the empty line after them, to be written as latin1: what the call says, and
 * what HTTP adds for the connection (RFC 9112 sections 3, 6 and 9). Names and values are looked at once more, because
 * one line feed in them would make another request of what follows.
 *
 * @throws TypeError when the call cannot go on the wire; it names what is wrong with it.
 */
export function requestHead(call: UpstreamCall): string {
  const { method, target, headers, upgrade } = call
  if (!isToken(method)) throw new TypeError('a method that is no token')
  if (!isTarget(target)) throw new TypeError('a target that is no path')
  if (headers.length % 2 !== 0) throw new TypeError('a field without a value')
  let host: string | undefined
  let fields = ''
  let framing = ''
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string
    const value = headers[i + 1] as string
    if (!isText(value)) throw new TypeError(`a control character in ${name}`)
    const kind = knownNames.get(name) ?? kindOf(name)
    if (kind === 'ordinary') fields += `${name}: ${value}\r\n`
    else if (kind === 'host') {
      if (host !== undefined) throw new TypeError('more than one Host')
      host = value
    } else if (kind === 'length') {
      if (framing !== '') throw new TypeError('more than one Content-Length')
      framing = lengthField(call, value)
    } else throw new TypeError(`${name} belongs to one connection, or is no name`)
  }
  if (framing === '') framing = framingWithoutLength(call)
  const start = `${method} ${target} HTTP/1.1\r\nhost: ${host ?? ''}\r\n`
  return `${start}${upgrade === undefined ? 'connection: keep-alive\r\n' : upgradeFields(upgrade)}${fields}${framing}\r\n`
}

function kindOf(name: string): NameKind {
  const lower = name.toLowerCase()
  let kind: NameKind = 'ordinary'
  if (!isToken(name) || REFUSED.has(lower)) kind = 'refused'
  else if (lower === 'host') kind = 'host'
  else if (lower === 'content-length') kind = 'length'
  if (knownNames.size >= MAX_KNOWN_NAMES) knownNames.clear()
  knownNames.set(name, kind)
  return kind
}

/** Origin form, of visible characters only (RFC 9112 section 3.2.1); bytes above ASCII go as they are. */
function isTarget(target: string): boolean {
  return target.startsWith('/') && !target.includes(' ') && !target.includes('\t') && isText(target)
}

function lengthField({ body }: UpstreamCall, value: string): string {
  const bytes = /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN
  if (!Number.isSafeInteger(bytes)) throw new TypeError('a Content-Length that is no number of bytes')
  if (bytes > 0 && body === null) throw new TypeError('a Content-Length without a body')
  return `content-length: ${value}\r\n`
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
