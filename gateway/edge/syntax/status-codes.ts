/** The parts of `node:http` that are used. An import would load the HTTP client of Node's WebSocket too: 30 ms of the start. */
const { createServer, METHODS: PARSED_METHODS, STATUS_CODES } = process.getBuiltinModule('node:http')

export { createServer, PARSED_METHODS, STATUS_CODES }

/** Methods that Node's parser knows, and the other ones of the IANA HTTP Method Registry. */
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

/** Known methods that the IANA HTTP Method Registry does not have. QUERY is taken for registered. */
export const UNREGISTERED_METHODS: ReadonlySet<string> = new Set([
  'M-SEARCH',
  'NOTIFY',
  'PURGE',
  'SOURCE',
  'SUBSCRIBE',
  'UNSUBSCRIBE',
])

/** Characters of an unknown method that are kept for the audit trail. No known method is longer. */
export const MAX_METHOD_CHARS = 64
