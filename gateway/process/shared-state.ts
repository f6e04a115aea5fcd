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

/** Counts and memories that all threads of a gateway share. With workers, each thread has an equal copy. */
export interface SharedState {
  readonly limiter: Limiter
  readonly revocations: Revocations
  /** Accepted webhooks. */
  readonly deliveries: ReplayMemory
  /** Accepted DPoP proofs. */
  readonly proofs: ReplayMemory
  /** Undefined: failed credentials are not throttled. */
  readonly throttle: AuthThrottle | undefined
  /** The counters of the throttle. */
  readonly failures: Counters
}

/** Keeps the copy of one thread equal to those of the others. */
export interface StateSharing {
  readonly revocations: KeySharing
  readonly deliveries: KeySharing
  readonly proofs: KeySharing
  readonly throttle: ThrottleSharing
  /** Epoch milliseconds of the current step, or now. */
  readonly clock: () => number
}

export interface SharedStateParts {
  readonly journal: HitStore
  /** Receives faults of the files. */
  readonly watch: StoreWatch
  readonly sharing?: StateSharing
}

/** @throws when a file cannot be read, since starting without it would forget its content */
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
      // A timestamp is accepted from one tolerance before the gateway's time to one after. One second more, because
      // timestamps have no fractions.
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
 * Retries what could not be written, and reports whether the files are writable. Called once a second and at the end, by the
 * thread that owns the files; with workers, within a step.
 */
export function tendState({ limiter, revocations, deliveries }: SharedState, watch: StoreWatch): void {
  limiter.tend()
  watch.observe('limits', limiter.isWritable)
  revocations.tend()
  deliveries.tend()
  watch.observe('revocations', revocations.isWritable && revocations.isSafe)
  watch.observe('webhooks', deliveries.isWritable)
}

/** Why the gateway is not ready, for the probe; undefined when it is ready. */
export function whyUnready(
  { limiter, revocations }: SharedState,
  { onJournalFailure }: Settings,
): string | undefined {
  if (!revocations.isSafe) return 'the end of a session cannot be written'
  return limiter.isWritable || onJournalFailure === 'degraded' ? undefined : 'limits cannot be written'
}

/** What is degraded, for the probe; undefined when nothing is. */
export function whyDegraded({ limiter, revocations, deliveries }: SharedState): string | undefined {
  const lacking: string[] = []
  if (!limiter.isWritable) lacking.push('limits are counted in memory only')
  if (!revocations.isWritable) lacking.push('revocations are kept in the reserve')
  if (!deliveries.isWritable) lacking.push('webhooks are refused')
  return lacking.length === 0 ? undefined : lacking.join(', ')
}

/** Sliding windows outside the limit table. They are not kept on disk. */
export function countersOf(limit: number, windowMs: number): Counters {
  const room = new KeyBudget()
  room.divide([0])
  return new Counters({ id: 0, name: '', path: '*', methods: null, limit, windowMs, horizonMs: null }, room)
}
