import type { UpstreamFault, UpstreamFaultKind } from '../upstream-client.ts'

/** Fault kind for each error of undici, its parser, Node and open-connection.ts: by code, or by name when it has none. */
const KIND_OF_ERROR: Readonly<Record<string, UpstreamFaultKind>> = {
  UPSTREAM_CONNECT: 'unreachable',
  UPSTREAM_CONNECT_TIMEOUT: 'timeout',
  // The request itself is invalid: undici refused it before using a connection.
  UND_ERR_INVALID_ARG: 'unreachable',
  UND_ERR_NOT_SUPPORTED: 'unreachable',
  UND_ERR_REQ_CONTENT_LENGTH_MISMATCH: 'unreachable',
  UND_ERR_SOCKET: 'broken',
  UND_ERR_ABORTED: 'broken',
  ECONNRESET: 'broken',
  EPIPE: 'broken',
  ETIMEDOUT: 'broken',
  UND_ERR_HEADERS_OVERFLOW: 'malformed',
  // Has no code in this version of undici.
  HTTPParserError: 'malformed',
}

/**
 * Classifies an error of undici. Unknown errors are `broken`.
 *
 * @param responded the head of the response was already passed on.
 */
export function faultOf(error: NodeJS.ErrnoException, responded: boolean): UpstreamFault {
  const { name, message } = error
  const key = error.code ?? name
  return { kind: kindOf(key, message, responded), cause: `${key}: ${message}` }
}

function kindOf(key: string, message: string, responded: boolean): UpstreamFaultKind {
  // undici uses this code for any fault while Content-Length bytes are missing. Before the head is complete, the head is wrong.
  if (key === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') return responded ? 'broken' : 'malformed'
  // An unexpected 101 has the code of a lost connection, and a body cut short has the name of a parser error.
  if (message === 'bad upgrade') return 'malformed'
  if (message.endsWith('(Invalid EOF state)')) return 'broken'
  return KIND_OF_ERROR[key] ?? 'broken'
}
