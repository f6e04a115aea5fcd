import { PROOF_LIFETIME_MS } from './auth/dpop.ts'
import type { KeySharing } from './auth/remembered-keys.ts'
import { ReplayMemory } from './auth/replay.ts'
import { Revocations } from './auth/revocations.ts'
import { AuthThrottle, type ThrottleSharing } from './auth/throttle.ts'
import { WEBHOOK_TOLERANCE_SECONDS } from './auth/webhook-signature.ts'
import type { Ground } from './ground.ts'
import { steadyClock } from './limits/clock.ts'
import { Counters, Room } from './limits/counters.ts'
import type { Keeping } from './limits/keeping.ts'
import { Limiter } from './limits/limiter.ts'

/** What a gateway remembers of what has passed it. With workers each thread has a copy, and all are the same. */
export interface Holdings {
  readonly limiter: Limiter
  readonly revocations: Revocations
  /** Webhooks that were accepted. */
  readonly deliveries: ReplayMemory
  /** DPoP proofs that were accepted. */
  readonly proofs: ReplayMemory
  /** Undefined: any number of bad credentials is looked at. */
  readonly throttle: AuthThrottle | undefined
  /** What the throttle counts with. */
  readonly failures: Counters
}

/** How the copies of one thread are kept like those of the others. */
export interface HoldingsSharing {
  readonly revocations: KeySharing
  readonly deliveries: KeySharing
  readonly proofs: KeySharing
  readonly throttle: ThrottleSharing
  /** Epoch milliseconds: of the step under way, or now. */
  readonly clock: () => number
}

/** @throws when there is a file that cannot be read: to go on would forget what it holds */
export function makeHoldings(ground: Ground, keeping: Keeping, sharing?: HoldingsSharing): Holdings {
  const { settings, log } = ground
  const { dataDir } = settings
  const clock = sharing?.clock ?? steadyClock()
  const { authThrottle } = settings
  const failures = countersOf(Math.max(1, authThrottle.failures), authThrottle.windowMs)
  return {
    limiter: new Limiter({ clock, journal: keeping }),
    revocations: new Revocations({
      dataDir,
      clock: Date.now,
      onFault: (cause) => log.error({ cause }, 'revocations'),
      sharing: sharing?.revocations,
    }),
    deliveries: new ReplayMemory({
      // A delivery is acceptable from so long before our time until so long after it, and remembered for all of it; a
      // second more, because timestamps have no fractions.
      lifetimeMs: (2 * WEBHOOK_TOLERANCE_SECONDS + 1) * 1000,
      clock: Date.now,
      store: {
        dataDir,
        name: 'webhooks',
        onFault: (cause) => log.error({ cause }, 'accepted webhooks'),
      },
      sharing: sharing?.deliveries,
    }),
    proofs: new ReplayMemory({
      lifetimeMs: PROOF_LIFETIME_MS,
      clock: Date.now,
      sharing: sharing?.proofs,
    }),
    throttle:
      authThrottle.failures === 0
        ? undefined
        : new AuthThrottle({ counter: failures, clock, sharing: sharing?.throttle }),
    failures,
  }
}

/** Sliding windows that belong to no row of the limit table. They end with the process. */
export function countersOf(limit: number, windowMs: number): Counters {
  const room = new Room()
  room.divide([0])
  return new Counters({ id: 0, name: '', path: '*', methods: null, limit, windowMs, horizonMs: null }, room)
}
