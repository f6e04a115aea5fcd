import type { UpstreamFault, UpstreamRequest } from './upstream-client.ts'

/** Who must act next: the upstream, the receiver of its response, or the sender of the request body. Nobody: it is coming. */
export type WaitedFor = 'upstream' | 'receiver' | 'sender' | 'nobody'

const KINDS = { upstream: 'timeout', receiver: 'unread', sender: 'unsent', nobody: 'timeout' } as const
const WORDS = {
  upstream: 'the upstream was waited for',
  receiver: 'the receiver held the response back',
  sender: 'the rest of the request body was waited for',
  nobody: 'the response was still coming',
} as const

/** The total time ran out: blames the side that had to act next. */
export function totalTimeout(
  { totalMs, isTotalOfClient }: Pick<UpstreamRequest, 'totalMs' | 'isTotalOfClient'>,
  waitedFor: WaitedFor,
): UpstreamFault {
  const kind = KINDS[waitedFor]
  const cause = `not over within ${totalMs} ms: ${WORDS[waitedFor]}`
  return isTotalOfClient === true || waitedFor === 'nobody'
    ? { kind, cause, isNeutral: true }
    : { kind, cause }
}

/** One step of the exchange took too long: blames the upstream, unless the body is missing that it may need to go on. */
export function stepTimeout(step: {
  readonly headReceived: boolean
  /** The request body is still being sent. */
  readonly sending: boolean
  /** All that has come of it has been taken. */
  readonly awaitsSender: boolean
  readonly headersMs: number
  readonly idleMs: number
}): UpstreamFault {
  const { headReceived, sending, awaitsSender, headersMs, idleMs } = step
  if (headReceived && awaitsSender) {
    return {
      kind: 'unsent',
      cause: `neither more of the request body nor of the response within ${idleMs} ms`,
    }
  }
  const cause = headReceived
    ? `no piece of the body within ${idleMs} ms`
    : sending
      ? `nothing of the request body was taken within ${idleMs} ms`
      : `no head within ${headersMs} ms`
  return { kind: 'timeout', cause }
}
