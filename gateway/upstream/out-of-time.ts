import type { UpstreamFault } from './upstream-client.ts'

/** Whom an exchange waits for: the upstream, the receiver of its response, or the sender of its request body. */
export type Awaited = 'upstream' | 'receiver' | 'sender'

const KINDS = { upstream: 'timeout', receiver: 'unread', sender: 'unsent' } as const
const WORDS = {
  upstream: 'the upstream was waited for',
  receiver: 'the receiver held the response back',
  sender: 'the rest of the request body was waited for',
} as const

/** The fault of an exchange whose total has run out names the side that was waited for at that time. */
export function outOfTotal(totalMs: number | undefined, awaited: Awaited): UpstreamFault {
  return { kind: KINDS[awaited], cause: `not over within ${totalMs} ms: ${WORDS[awaited]}` }
}

/** Which step of the exchange has taken the upstream too long. */
export interface Step {
  readonly headTold: boolean
  /** The body of the request is still on its way. */
  readonly sending: boolean
  readonly headersMs: number
  readonly idleMs: number
}

export function outOfPatience({ headTold, sending, headersMs, idleMs }: Step): UpstreamFault {
  const cause = headTold
    ? `no piece of the body within ${idleMs} ms`
    : sending
      ? `nothing of the request body was taken within ${idleMs} ms`
      : `no head within ${headersMs} ms`
  return { kind: 'timeout', cause }
}
