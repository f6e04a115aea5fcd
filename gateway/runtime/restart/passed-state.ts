import type { LastGoodKeys } from '../../auth/keys/jwks.ts'
import type { GatewayState } from '../gateway-state.ts'
import type { PassedState } from './messages.ts'

/** What only the memory has of the gateway's state. */
export function takeState(
  { proofs, failures, throttle, limiter }: GatewayState,
  keys: readonly LastGoodKeys[],
): PassedState {
  return {
    proofs: [...proofs.entries()],
    failures: [...failures.entries(limiter.nowMs)],
    blocked: throttle.blocked(),
    keys,
  }
}

/** Takes over what only the memory of the process before had. */
export function restoreState(
  passed: PassedState,
  { proofs, failures, throttle, limiter }: GatewayState,
): void {
  for (const [key, atMs] of passed.proofs) proofs.apply(key, atMs, true)
  for (const [key, entry] of passed.failures) failures.restore(key, entry, limiter.nowMs)
  throttle.block(passed.blocked)
}
