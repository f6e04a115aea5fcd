import { createHmac } from 'node:crypto'
import type { ReplayMemory } from '../auth/replay.ts'
import type { SessionGroup } from '../auth/revocations.ts'
import type { FailureGroup } from '../auth/throttle.ts'
import type { StoreSettings } from '../config/rules/store-address.ts'
import type { Settings } from '../config/settings.ts'
import type { KeySecrets } from '../idempotency/key-secret.ts'
import type { KeyTable } from '../idempotency/key-table.ts'
import type { Limiter } from '../limits/limiter.ts'
import { StoreConnection } from './connection/store-connection.ts'
import { EndedSessions } from './ended-sessions.ts'
import { SharedIdempotency } from './shared-idempotency.ts'
import { SharedLimits } from './shared-limits.ts'
import { SharedReplays } from './shared-replays.ts'
import { SharedStore } from './shared-store.ts'
import { REAL_TIMERS } from './store-breaker.ts'
import type { StoreCounts } from './store-counts.ts'
import { MAX_STREAM, StoreEvents, streamKey } from './store-events.ts'

interface StoreMemberOptions {
  readonly settings: StoreSettings
  readonly onStoreFailure: Settings['onStoreFailure']
  readonly gatewayId: string
  /** Epoch milliseconds, monotonic during a run. */
  readonly clock: () => number
  readonly ownSessions: () => Iterable<readonly [sid: string, atMs: number]>
  /** Called for a bad credential at another gateway. @param caller as `failures.keyOf` returns it */
  readonly onFailure: (caller: string) => void
  readonly onAway: (cause: string) => void
  readonly onBack: (awayMs: number) => void
  readonly onFault: (cause: string) => void
}

/** Allows for the difference of two clocks and the lateness of a command. */
const SLACK_MS = 1000

export class StoreMember {
  readonly sessions: SessionGroup
  /** Tells others of bad credentials, except while the store is away. */
  readonly failures: FailureGroup
  readonly #options: StoreMemberOptions
  readonly #store: SharedStore
  readonly #events: StoreEvents
  readonly #ended: EndedSessions
  readonly #guards: SharedReplays[] = []
  #idempotency: SharedIdempotency | undefined
  #onStoreFailure: Settings['onStoreFailure']
  #nonceSecret: Uint8Array | undefined
  #nonceSecretOf = ''

  constructor(options: StoreMemberOptions) {
    const { settings, gatewayId, clock, onAway, onFault } = options
    this.#options = options
    this.#onStoreFailure = options.onStoreFailure
    this.#store = new SharedStore(
      settings,
      {
        onAway,
        onBack: (awayMs) => this.#onBack(awayMs),
        onFault,
        onNewData: () => {
          for (const guard of this.#guards) guard.writeBack(Number.NEGATIVE_INFINITY)
        },
      },
      options.onStoreFailure.deadlineMs,
    )
    const { breaker, keys } = this.#store
    const ended = new EndedSessions({ breaker, keys, id: gatewayId, clock, own: options.ownSessions })
    const connection = new StoreConnection(settings, onFault)
    const events = new StoreEvents({
      connection,
      keys,
      id: gatewayId,
      beforeFollowing: async (send) => {
        // Before the store was reached, sessions would be hashed with a key that only this gateway has.
        if (!this.#store.wasReached) throw new Error('the store has not been reached')
        await ended.readAll(send)
      },
      onEvent: (kind, hash, agoMs) => (kind === 'ended' ? ended.apply(hash, agoMs) : options.onFailure(hash)),
      onFault,
    })
    this.#ended = ended
    this.#events = events
    const stream = streamKey(keys)
    this.failures = {
      keyOf: (caller) => keys.keyOf('failure', caller),
      publish: (key) => {
        const entry = ['kind', 'failed', 'hash', key, 'origin', gatewayId]
        breaker.send({
          args: ['XADD', stream, 'MAXLEN', '~', String(MAX_STREAM), '*', ...entry],
          key: stream,
          done: () => undefined,
        })
      },
    }
    const areKnown = () => this.#onStoreFailure.revocations === 'local' || events.isCurrent
    this.sessions = {
      has: (sid) => ended.has(sid),
      publish: (sid) => ended.publish(sid),
      rememberFor: (lifetimeMs) => ended.rememberFor(lifetimeMs),
      get isKnown() {
        return areKnown()
      },
    }
  }

  /** True once this gateway has read all that the store knows. Only then may it be ready. */
  get isComplete(): boolean {
    return this.#store.wasReached && this.#events.wasComplete
  }

  change(onStoreFailure: Settings['onStoreFailure']): void {
    this.#onStoreFailure = onStoreFailure
    this.#store.breaker.changeDeadline(onStoreFailure.deadlineMs)
    for (const guard of this.#guards) guard.change(onStoreFailure.replays)
  }

  /** True while the store is not asked. */
  get isAway(): boolean {
    return this.#store.breaker.isOpen
  }

  get unsentSessions(): number {
    return this.#ended.unsent
  }

  get counts(): StoreCounts {
    return this.#store.counts
  }

  limits(local: Pick<Limiter, 'find' | 'take' | 'close'>): SharedLimits {
    return new SharedLimits(local, this.#store.takes)
  }

  /** @param local keys of this gateway alone @returns the same object at each call */
  idempotency(secrets: KeySecrets, local: () => KeyTable | undefined): SharedIdempotency {
    const { breaker, keys } = this.#store
    const { gatewayId: id, onFault } = this.#options
    const isShared = () => this.#store.isShared
    this.#idempotency ??= new SharedIdempotency({
      ...{ breaker, keys, timers: REAL_TIMERS, secrets, id, isShared, local, onFault },
    })
    this.#idempotency.rekey(secrets)
    return this.#idempotency
  }

  /** @param space one for each kind of messages */
  replays(space: string, memory: ReplayMemory, lifetimeMs: number): SharedReplays {
    const { gatewayId } = this.#options
    const { breaker, keys } = this.#store
    const guard = new SharedReplays({
      memory,
      clock: this.#options.clock,
      breaker,
      keys,
      space,
      lifetimeMs,
      onStoreFailure: this.#onStoreFailure.replays,
      id: gatewayId,
    })
    this.#guards.push(guard)
    return guard
  }

  /** The secret of nonces that all gateways accept. Returns the same object until the key of the store changes. */
  nonceSecret(): Uint8Array {
    const { hashKey } = this.#store.keys
    if (this.#nonceSecret === undefined || hashKey !== this.#nonceSecretOf) {
      this.#nonceSecret = createHmac('sha256', hashKey).update('DPoP nonces').digest()
      this.#nonceSecretOf = hashKey
    }
    return this.#nonceSecret
  }

  /** Called once a second. */
  maintain(): void {
    this.#store.look(() => this.#events.restart())
    this.#ended.maintain()
    for (const guard of this.#guards) guard.maintainStore()
  }

  close(): void {
    this.#events.close()
    this.#store.close()
  }

  #onBack(awayMs: number): void {
    // Commands may have failed before the outage was noticed. Guards with `local` accepted their messages.
    const sinceMs = this.#options.clock() - awayMs - this.#onStoreFailure.deadlineMs - SLACK_MS
    for (const guard of this.#guards) guard.writeBack(sinceMs)
    this.maintain()
    this.#options.onBack(awayMs)
  }
}
