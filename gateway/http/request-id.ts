import { v7 } from 'uuid'

const ACCEPTABLE = /^[A-Za-z0-9._:/+=@-]{1,128}$/

/** The caller's own id when it is harmless in a header, a log line and a JSON string; otherwise a new UUID (RFC 9562, version 7). */
export function requestIdFrom(presented: string | undefined): string {
  return presented !== undefined && ACCEPTABLE.test(presented) ? presented : v7()
}
