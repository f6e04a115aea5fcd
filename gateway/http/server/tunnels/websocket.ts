import type { Field } from '../../syntax/field.ts'
import type { IncomingRequest } from '../incoming-request.ts'

/**
 * RFC 6455 section 4.2.1: a GET without a body that asks for WebSocket version 13, and for nothing else. HTTP/1.0 cannot
 * ask for another protocol (RFC 9110 section 7.8).
 *
 * @param request whose Connection field names Upgrade
 */
export function isWebSocketUpgrade({
  method,
  version,
  fields,
  body,
}: Pick<IncomingRequest, 'method' | 'version' | 'fields' | 'body'>): boolean {
  if (method !== 'GET' || version !== '1.1' || body !== null) return false
  return (
    joined(fields, 'upgrade')?.toLowerCase() === 'websocket' &&
    joined(fields, 'sec-websocket-version') === '13' &&
    joined(fields, 'sec-websocket-key') !== undefined &&
    joined(fields, 'content-length') === undefined
  )
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
