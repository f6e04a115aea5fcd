import { setTimeout as delay } from 'node:timers/promises'
import type { StoreMember } from '../store/store-member.ts'

/** How long a new worker or process waits for the shared store before it serves without it. */
const MAX_STORE_WAIT_MS = 2000
const STORE_CHECK_MS = 10

/**
 * Until then it would let through what the other gateways have counted, although the gateway is ready. One that starts while
 * the store is away goes on by itself like the others.
 */
export async function reachStore(member: Pick<StoreMember, 'isComplete'> | undefined): Promise<void> {
  const endMs = performance.now() + MAX_STORE_WAIT_MS
  while (member?.isComplete === false && performance.now() < endMs) await delay(STORE_CHECK_MS)
}
