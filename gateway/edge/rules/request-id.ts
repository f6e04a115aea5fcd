import { randomUUID } from 'node:crypto'
import { randomHex } from '../syntax/random-hex.ts'

const ACCEPTABLE = /^[A-Za-z0-9._:/+=@-]{1,128}$/

/** Bound of `count`: 14 bits of the fourth group. */
const COUNT_LIMIT = 2 ** 14

/** Time of the last id. Ids ascend, also within a millisecond or when the clock is set back (RFC 9562 section 6.2). */
let lastMs = 0
let count = COUNT_LIMIT
let front = ''

const ANY_UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** FAPI's header in requests to services and in responses, if `interactionId` is set. */
export const INTERACTION_ID = 'x-fapi-interaction-id'

/** The client's own id when it is a UUID, else a new one. */
export function interactionIdOf(presented: string | undefined): string {
  return presented !== undefined && ANY_UUID.test(presented) ? presented : randomUUID()
}

/** The client's own id when it is safe in a header, a log line and a JSON string. */
export function acceptedRequestId(presented: string | undefined): string | undefined {
  return presented !== undefined && ACCEPTABLE.test(presented) ? presented : undefined
}

/** A new UUID (RFC 9562, version 7). */
export function newRequestId(): string {
  const nowMs = Date.now()
  count++
  if (nowMs > lastMs || count >= COUNT_LIMIT) {
    lastMs = Math.max(nowMs, lastMs + 1)
    const time = lastMs.toString(16).padStart(12, '0')
    front = `${time.slice(0, 8)}-${time.slice(8)}-7${randomHex(3)}`
    // At most half of the limit: the rest is left for counting.
    count = Number.parseInt(randomHex(4), 16) >>> 3
  }
  return `${front}-${(0x8000 | count).toString(16)}-${randomHex(12)}`
}
