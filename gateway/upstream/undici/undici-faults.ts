import type { UpstreamFault, UpstreamFaultKind } from '../upstream-client.ts'

/** What each error of undici, its parser, Node and connection.ts means for the exchange, by code or else by name. */
const KIND_OF_ERROR: Readonly<Record<string, UpstreamFaultKind>> = {
  UPSTREAM_CONNECT: 'unreachable',
  UPSTREAM_CONNECT_TIMEOUT: 'timeout',
  // The call itself cannot be sent: refused before a connection was touched.
  UND_ERR_INVALID_ARG: 'unreachable',
  UND_ERR_NOT_SUPPORTED: 'unreachable',
  UND_ERR_REQ_CONTENT_LENGTH_MISMATCH: 'unreachable',
  UND_ERR_SOCKET: 'broken',
  UND_ERR_ABORTED: 'broken',
  ECONNRESET: 'broken',
  EPIPE: 'broken',
  ETIMEDOUT: 'broken',
  UND_ERR_HEADERS_OVERFLOW: 'malformed',
  // It is meant to have a code, but in this version of undici it has none.
  HTTPParserError: 'malformed',
}

/**
 * Classifies what undici reports; an error that nobody knows is `broken`.
 *
 * @param answered whether the answer's head has been told already.
 */
export function faultOf(error: NodeJS.ErrnoException, answered: boolean): UpstreamFault {
  const { name, message } = error
  const key = error.code ?? name
  return { kind: kindOf(key, message, answered), cause: `${key}: ${message}` }
}

function kindOf(key: string, message: string, answered: boolean): UpstreamFaultKind {
  // One code for any fault while a Content-Length is not fulfilled: in the head it is the head that is wrong.
  if (key === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') return answered ? 'broken' : 'malformed'
  // An unasked 101 shares its code with a lost connection, and a body cut short its name with a wrong one.
  if (message === 'bad upgrade') return 'malformed'
  if (message.endsWith('(Invalid EOF state)')) return 'broken'
  return KIND_OF_ERROR[key] ?? 'broken'
}
