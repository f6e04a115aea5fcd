/** The methods whose requests are about their body: a service that accepts one has read it. */
const BODY_IS_MEANT: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

/**
 * Whether a service may leave the body of such a request unread, whatever it responds: the body has no meaning there
 * (RFC 9110 sections 9.3.1, 9.3.2, 9.3.5). A careless service takes what it left for the next request of the
 * connection, and its response would go to another caller. So such a request is the last of its connection, and says so.
 */
export function mayLeaveBody(method: string, hasBody: boolean): boolean {
  return hasBody && !BODY_IS_MEANT.has(method)
}

/** Whether the response tells that the body was read: a service may refuse a request at the sight of its head. */
export function hasReadBody(method: string, status: number): boolean {
  return BODY_IS_MEANT.has(method) && status >= 200 && status < 300
}
