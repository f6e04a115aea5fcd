import type { Field } from '../../syntax/field.ts'
import type { IncomingRequest } from '../incoming-request.ts'

/** What a request asks for. `other version`: WebSocket in a version other than 13 (RFC 6455 section 4.2.2). */
export type Upgrade = 'websocket' | 'other version'

/**
 * Reads what a GET without a body asks for (RFC 6455 section 4.2.1); `Content-Length: 0` is no body. HTTP/1.0 cannot ask for
 * another protocol (RFC 9110 section 7.8).
 *
 * @param request whose Connection field names Upgrade
 * @returns undefined where it does not ask for WebSocket alone
 */
export function upgradeOf({
  method,
  version,
  fields,
  body,
}: Pick<IncomingRequest, 'method' | 'version' | 'fields' | 'body'>): Upgrade | undefined {
  if (method !== 'GET' || version !== '1.1' || body !== null) return undefined
  const asked = joined(fields, 'sec-websocket-version')
  if (joined(fields, 'upgrade')?.toLowerCase() !== 'websocket' || asked === undefined) return undefined
  if (joined(fields, 'sec-websocket-key') === undefined) return undefined
  return asked === '13' ? 'websocket' : 'other version'
}

/** @returns all values of a field, joined by commas; undefined when there is none. */
function joined(fields: readonly Field[], name: string): string | undefined {
  const values = fields.filter(({ lower }) => lower === name).map(({ value }) => value)
  return values.length === 0 ? undefined : values.join(', ')
}

/** The head of a 101 response (RFC 9110 section 15.2.2). @param lines each with its CR LF */
export function upgradeHead(lines: string): string {
  return `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${lines}\r\n`
}
