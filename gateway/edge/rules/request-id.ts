import { randomUUID } from 'node:crypto'
import { v7 } from 'uuid'
import { HexText, randomness } from '../syntax/hex-text.ts'

const ACCEPTABLE = /^[A-Za-z0-9._:/+=@-]{1,128}$/

const UUID = new HexText('########-####-####-####-############')
const bytes = new Uint8Array(16)

/** The last id: ids ascend, also within a millisecond and when the clock is set back (RFC 9562 section 6.2). */
let last = { msecs: Number.NEGATIVE_INFINITY, seq: 0 }

const ANY_UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Header of FAPI, in requests to services and in every response. */
export const INTERACTION_ID = 'x-fapi-interaction-id'

/** The client's own interaction id when it is a UUID, in either case of letters; else a new one. */
export function interactionIdOf(presented: string | undefined): string {
  return presented !== undefined && ANY_UUID.test(presented) ? presented : randomUUID()
}

/** The client's own id when it is safe in a header, a log line and a JSON string; otherwise undefined. */
export function acceptedRequestId(presented: string | undefined): string | undefined {
  return presented !== undefined && ACCEPTABLE.test(presented) ? presented : undefined
}

/** A new UUID (RFC 9562, version 7). The library alone would ask the system for randomness for every id, and format it slowly. */
export function newRequestId(): string {
  const nowMs = Date.now()
  const random = randomness(16)
  if (nowMs > last.msecs) last = { msecs: nowMs, seq: random.readInt32BE(6) & 0x7fff_ffff }
  else {
    const seq = (last.seq + 1) | 0
    last = { msecs: seq === 0 ? last.msecs + 1 : last.msecs, seq }
  }
  v7({ random, msecs: last.msecs, seq: last.seq }, bytes)
  return UUID.of(bytes)
}
