import { PROOF_LIFETIME_MS } from '../auth/possession/dpop.ts'
import { ReplayMemory } from '../auth/replay.ts'
import { Revocations } from '../auth/revocations.ts'
import { AuthThrottle, type ThrottleSharing } from '../auth/throttle.ts'
import { WEBHOOK_TOLERANCE_SECONDS } from '../auth/webhook-signature.ts'
import type { Settings } from '../config/settings.ts'
import type { HitStore } from '../limits/journal/hit-store.ts'
import { steadyClock } from '../limits/limit-clock.ts'
import { Limiter } from '../limits/limiter.ts'
import { Counters, KeyBudget } from '../limits/windows/counters.ts'
import type { KeySharing } from '../storage/expiring-keys.ts'
import type { StartupConfiguration } from './startup-configuration.ts'
import type { StoreWatch } from './store-watch.ts'

/** What a gateway remembers of what has passed it. With workers each thread has a copy, and all are the same. */
export interface SharedState {
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
export interface StateSharing {
  readonly revocations: KeySharing
  readonly deliveries: KeySharing
  readonly proofs: KeySharing
  readonly throttle: ThrottleSharing
  /** Epoch milliseconds: of the step under way, or now. */
  readonly clock: () => number
}

export interface SharedStateParts {
  readonly journal: HitStore
  /** Told what is wrong with the files. */
  readonly watch: StoreWatch
  readonly sharing?: StateSharing
}

/** @throws when there is a file that cannot be read: to go on would forget what it holds */
export function makeSharedState(
  { settings }: StartupConfiguration,
  { journal, watch, sharing }: SharedStateParts,
): SharedState {
  const { dataDir } = settings
  const clock = sharing?.clock ?? steadyClock()
  const { authThrottle } = settings
  const failures = countersOf(Math.max(1, authThrottle.failures), authThrottle.windowMs)
  return {
    limiter: new Limiter({ clock, journal }),
    revocations: new Revocations({
      dataDir,
      clock,
      onFault: (cause) => watch.fault('revocations', cause),
      onRemoved: (cause) => watch.removed('revocations', cause),
      sharing: sharing?.revocations,
    }),
    deliveries: new ReplayMemory({
      // A delivery is acceptable from so long before our time until so long after it, and remembered for all of it; a
      // second more, because timestamps have no fractions.
      lifetimeMs: (2 * WEBHOOK_TOLERANCE_SECONDS + 1) * 1000,
      clock,
      store: {
        dataDir,
        name: 'webhooks',
        onFault: (cause) => watch.fault('webhooks', cause),
        onRemoved: (cause) => watch.removed('webhooks', cause),
      },
      sharing: sharing?.deliveries,
    }),
    proofs: new ReplayMemory({
      lifetimeMs: PROOF_LIFETIME_MS,
      clock,
      sharing: sharing?.proofs,
    }),
    throttle:
      authThrottle.failures === 0
        ? undefined
        : new AuthThrottle({ counter: failures, clock, sharing: sharing?.throttle }),
    failures,
  }
}

/**
 * Sees to the files of the holdings, once a second and at the end: what could not be written is tried again, and it is said
 * how they are. Of the thread that tends them; among several within a step.
 */
export function tendState({ limiter, revocations, deliveries }: SharedState, watch: StoreWatch): void {
  limiter.tend()
  watch.observe('limits', limiter.isWritable)
  revocations.tend()
  deliveries.tend()
  watch.observe('revocations', revocations.isWritable && revocations.isSafe)
  watch.observe('webhooks', deliveries.isWritable)
}

/** Why no traffic should come, in words for the probe; undefined when it should. */
export function whyUnready(
  { limiter, revocations }: SharedState,
  { onJournalFailure }: Settings,
): string | undefined {
  if (!revocations.isSafe) return 'the end of a session cannot be written'
  return limiter.isWritable || onJournalFailure === 'degraded' ? undefined : 'limits cannot be written'
}

/** What is done without, in words for the probe; undefined when that is nothing. */
export function whyDegraded({ limiter, revocations, deliveries }: SharedState): string | undefined {
  const lacking: string[] = []
  if (!limiter.isWritable) lacking.push('limits are counted in memory only')
  if (!revocations.isWritable) lacking.push('revocations are kept in the reserve')
  if (!deliveries.isWritable) lacking.push('webhooks are refused')
  return lacking.length === 0 ? undefined : lacking.join(', ')
}

/** Sliding windows that belong to no row of the limit table. They end with the process. */
export function countersOf(limit: number, windowMs: number): Counters {
  const room = new KeyBudget()
  room.divide([0])
  return new Counters({ id: 0, name: '', path: '*', methods: null, limit, windowMs, horizonMs: null }, room)
}
