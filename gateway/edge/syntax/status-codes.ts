/** An import of `node:http` would load the HTTP client of Node's WebSocket too, and slow the start. */
const { createServer, METHODS: PARSED_METHODS, STATUS_CODES } = process.getBuiltinModule('node:http')

export { createServer, PARSED_METHODS, STATUS_CODES }

/** True for a final response that never has a body (RFC 9110 section 6.4.1). */
export function isBodiless(method: string, status: number): boolean {
  return method === 'HEAD' || status === 204 || status === 304
}

/** Methods that Node's parser knows, and the others of the IANA HTTP Method Registry. */
export const KNOWN_METHODS: ReadonlySet<string> = new Set([
  ...PARSED_METHODS,
  'BASELINE-CONTROL',
  'CHECKIN',
  'LABEL',
  'MKREDIRECTREF',
  'MKWORKSPACE',
  'ORDERPATCH',
  'UNCHECKOUT',
  'UPDATE',
  'UPDATEREDIRECTREF',
  'VERSION-CONTROL',
])

/** Known methods outside the IANA registry. QUERY counts as registered. */
export const UNREGISTERED_METHODS: ReadonlySet<string> = new Set([
  'M-SEARCH',
  'NOTIFY',
  'PURGE',
  'SOURCE',
  'SUBSCRIBE',
  'UNSUBSCRIBE',
])

/** The audit trail keeps at most this many characters of an unknown method. No known method is longer. */
export const MAX_METHOD_CHARS = 64
