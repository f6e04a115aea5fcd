/** Methods whose body has a meaning: a service that accepts such a request has read it. */
const BODY_IS_MEANT: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

/**
 * Whether a service may leave the request body unread whatever it responds, because the body has no meaning for this
 * method (RFC 9110 sections 9.3.1, 9.3.2, 9.3.5). A careless service parses the unread rest as the next request, and
 * its response would go to another caller. So this request must be the last of its connection.
 */
export function mayLeaveBody(method: string, hasBody: boolean): boolean {
  return hasBody && !BODY_IS_MEANT.has(method)
}

/** Whether the status proves that the body was read. A service may refuse a request after its head alone. */
export function hasReadBody(method: string, status: number): boolean {
  return BODY_IS_MEANT.has(method) && status >= 200 && status < 300
}
