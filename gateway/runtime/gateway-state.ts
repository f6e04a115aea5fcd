import { createHmac } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Trail } from '../audit/trail.ts'
import { DELIVERY_LIFETIME_MS, Deliveries } from '../auth/deliveries.ts'
import type { LastGoodKeys } from '../auth/keys/jwks.ts'
import { PROOF_LIFETIME_MS } from '../auth/possession/dpop.ts'
import { type ReplayGuard, ReplayMemory } from '../auth/replay.ts'
import { Revocations, revocationLifetimeMs } from '../auth/revocations.ts'
import { SIGNATURE_LIFETIME_MS } from '../auth/signatures/presented-signatures.ts'
import { AuthThrottle } from '../auth/throttle.ts'
import { WEBHOOK_LIFETIME_MS } from '../auth/webhook-signature.ts'
import type { Settings } from '../config/settings.ts'
import type { KeySecrets } from '../idempotency/key-secret.ts'
import type { KeyTable } from '../idempotency/key-table.ts'
import { Journal } from '../limits/journal/limit-journal.ts'
import { Limiter, steadyClock } from '../limits/limiter.ts'
import { type Counters, countersOutsideTable } from '../limits/windows/counters.ts'
import type { StoreMember } from '../store/store-member.ts'
import { journalOptions, openKeyTable } from './data-files.ts'
import type { PassedState } from './restart/messages.ts'
import type { StartupConfiguration } from './startup/read-configuration.ts'
import type { StoreWatch } from './store-watch.ts'

const MAX_STORE_WAIT_MS = 2000
const STORE_CHECK_MS = 10

export interface IdempotencyKeys {
  table: KeyTable | undefined
  /** @param secrets default: those of the start @throws Error that names a file that cannot be read, or keys whose secret is gone */
  open(secrets?: KeySecrets): KeyTable
}

/** Counts and memories, which gateways share where there is a shared store. */
export interface GatewayState {
  readonly limiter: Limiter
  readonly revocations: Revocations
  readonly acceptedWebhooks: ReplayMemory
  readonly acceptedSignatures: ReplayMemory
  /** Webhooks that the service has taken: of GitHub, and of schemes in clients.json. */
  readonly deliveredWebhooks: ReplayMemory
  readonly proofs: ReplayMemory
  readonly keys: IdempotencyKeys
  /** Used only while failed credentials are throttled. */
  readonly throttle: AuthThrottle
  readonly failures: Counters
  /** Epoch milliseconds that never jump. */
  readonly clock: () => number
  /** Undefined: there is no shared store. */
  readonly member: StoreMember | undefined
  readonly guards: {
    readonly webhooks: ReplayGuard
    readonly signatures: ReplayGuard
    readonly deliveries: Deliveries
    readonly proofs: ReplayGuard
  }
}

interface StateTerms {
  readonly watch: StoreWatch
  readonly gatewayId: string
  /** As in `PassedState`; default: how far the wall clock is ahead of `bootedMs`. */
  readonly clockAheadMs?: number | undefined
}

/** A monotonic clock that all processes of this machine share. */
function bootedMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

export function gatewayIdOf(secret: Uint8Array): string {
  return createHmac('sha256', secret).update('store member').digest('hex').slice(0, 16)
}

/** @throws Error when a file cannot be read: a start without the file would forget its content */
export function makeGatewayState(
  startup: StartupConfiguration,
  { watch, gatewayId, clockAheadMs = Date.now() - bootedMs() }: StateTerms,
): GatewayState {
  const { settings, storeModule } = startup
  const { dataDir, store, onStoreFailure, authThrottle } = settings
  // First, because the journal locks the directory.
  const journal = new Journal(journalOptions(startup, watch))
  const clock = steadyClock(clockAheadMs + bootedMs())
  const failures = countersOutsideTable(Math.max(1, authThrottle.failures), authThrottle.windowMs)
  const member =
    store &&
    storeModule &&
    new storeModule.StoreMember({
      settings: store,
      onStoreFailure,
      gatewayId,
      clock,
      // Called later, when `state` exists.
      ownSessions: () => state.revocations.entries(),
      onFailure: (caller) => state.throttle.apply(caller, clock()),
      onAway: (cause) => watch.away(cause),
      onBack: () => watch.observe('shared', true),
      onFault: (cause) => watch.fault('shared', cause),
    })
  if (member !== undefined) watch.expose(member)
  const webhookMemory = (name: string, lifetimeMs: number) =>
    new ReplayMemory({
      lifetimeMs,
      clock,
      wallClock: Date.now,
      store: {
        dataDir,
        name,
        onFault: (cause) => watch.fault('webhooks', cause),
        onRemoved: (cause) => watch.removed('webhooks', cause),
      },
    })
  const acceptedWebhooks = webhookMemory('webhooks', WEBHOOK_LIFETIME_MS)
  const acceptedSignatures = webhookMemory('signatures', SIGNATURE_LIFETIME_MS)
  const deliveredWebhooks = webhookMemory('deliveries', DELIVERY_LIFETIME_MS)
  const proofs = new ReplayMemory({ lifetimeMs: PROOF_LIFETIME_MS, clock, wallClock: Date.now })
  const guard = (space: string, memory: ReplayMemory, lifetimeMs: number) =>
    member?.replays(space, memory, lifetimeMs) ?? memory
  const state: GatewayState = {
    limiter: new Limiter({ clock, journal }),
    revocations: new Revocations({
      dataDir,
      clock,
      wallClock: Date.now,
      onFault: (cause) => watch.fault('revocations', cause),
      onRemoved: (cause) => watch.removed('revocations', cause),
      group: member?.sessions,
      lifetimeMs: revocationLifetimeMs([settings, ...settings.issuers]),
    }),
    acceptedWebhooks,
    acceptedSignatures,
    deliveredWebhooks,
    proofs,
    keys: keysOf((secrets) => openKeyTable(startup, { watch, clock }, secrets)),
    throttle: new AuthThrottle({ counter: failures, clock, group: member?.failures }),
    failures,
    clock,
    member,
    guards: {
      webhooks: guard('webhook', acceptedWebhooks, WEBHOOK_LIFETIME_MS),
      signatures: guard('signature', acceptedSignatures, SIGNATURE_LIFETIME_MS),
      deliveries: new Deliveries(guard('delivery', deliveredWebhooks, DELIVERY_LIFETIME_MS)),
      proofs: guard('proof', proofs, PROOF_LIFETIME_MS),
    },
  }
  return state
}

function keysOf(make: (secrets?: KeySecrets) => KeyTable): IdempotencyKeys {
  return {
    table: undefined,
    open(secrets) {
      if (secrets !== undefined) this.table?.rekey(secrets)
      this.table ??= make(secrets)
      return this.table
    },
  }
}

/** Puts edits in force. Failures counted so far stay counted. */
export function changeState(
  { failures, clock, member, revocations }: GatewayState,
  settings: Settings,
): void {
  const { authThrottle, onStoreFailure } = settings
  failures.limitTo(Math.max(1, authThrottle.failures), authThrottle.windowMs, clock())
  member?.change(onStoreFailure)
  revocations.rememberFor(revocationLifetimeMs([settings, ...settings.issuers]))
}

function messageMemories(state: GatewayState): readonly ReplayMemory[] {
  return [state.acceptedWebhooks, state.acceptedSignatures, state.deliveredWebhooks]
}

/** Call it when the next process took over the files and then failed. */
export function takeFilesBack(state: GatewayState): void {
  for (const memory of [state.revocations, ...messageMemories(state)]) memory.takeBack()
}

function areWritable(state: GatewayState): boolean {
  return messageMemories(state).every(({ isWritable }) => isWritable)
}

/** The work of each second, in parts: all in one turn would delay requests. */
export function maintenanceOf(state: GatewayState, watch: StoreWatch): readonly (() => void)[] {
  const { limiter, revocations, keys, member } = state
  return [
    () => {
      member?.maintain()
      limiter.maintain()
      watch.observe('limits', limiter.isWritable)
      watch.repeat()
    },
    () => {
      revocations.maintain()
      watch.observe('revocations', revocations.isWritable && revocations.isSafe)
    },
    () => {
      for (const memory of messageMemories(state)) memory.maintain()
      watch.observe('webhooks', areWritable(state))
    },
    () => {
      if (keys.table === undefined) return
      keys.table.maintain()
      watch.observe('idempotency', keys.table.isWritable)
    },
  ]
}

/** Waits a while for the shared store: without it the gateway would let too many requests through. */
export async function reachStore(member: Pick<StoreMember, 'isComplete'> | undefined): Promise<void> {
  const endMs = performance.now() + MAX_STORE_WAIT_MS
  while (member?.isComplete === false && performance.now() < endMs) await delay(STORE_CHECK_MS)
}

export function whyUnready(
  { limiter, revocations, member }: GatewayState,
  { limits }: Settings,
): string | undefined {
  if (member?.isComplete === false) return 'the shared store has not been reached'
  if (!revocations.isSafe) return 'the end of a session cannot be written'
  return limiter.isWritable || limits.onJournalFailure === 'degraded' ? undefined : 'limits cannot be written'
}

export function whyNotHandedOver(trail: Pick<Trail, 'recheck'>, state: GatewayState): string | undefined {
  const { limiter, revocations, keys } = state
  if (!trail.recheck()) return 'the audit trail cannot be written'
  if (!areWritable(state)) return 'accepted webhooks cannot be written'
  if (!limiter.isWritable) return 'limits cannot be written'
  if (keys.table?.isWritable === false) return 'idempotency keys cannot be written'
  return revocations.isSafe ? undefined : 'the end of a session cannot be written'
}

export function whyDegraded(state: GatewayState): string | undefined {
  const { limiter, revocations, keys, member } = state
  const lacking: string[] = []
  if (!limiter.isWritable) lacking.push('limits are counted in memory only')
  if (!revocations.isWritable) lacking.push('revocations are kept in the reserve')
  if (!areWritable(state)) lacking.push('webhooks are refused')
  if (keys.table?.isWritable === false) lacking.push('idempotency keys are refused')
  if (member?.isAway === true) lacking.push('the shared store is away')
  return lacking.length === 0 ? undefined : lacking.join(', ')
}

export function takeState(
  { proofs, failures, throttle, clock, keys: { table }, guards: { deliveries } }: GatewayState,
  keys: readonly LastGoodKeys[],
): PassedState {
  return {
    clockAheadMs: clock() - bootedMs(),
    begunKeys: table?.suspend() ?? [],
    deliveries: deliveries.inProgress,
    proofs: [...proofs.entries()],
    failures: [...failures.entries(clock())],
    blocked: throttle.blocked(),
    keys,
  }
}

export function restoreState(
  passed: PassedState,
  { proofs, failures, throttle, clock, keys, guards }: GatewayState,
): void {
  const { begunKeys = [], deliveries = [] } = passed
  guards.deliveries.inherit(deliveries)
  if (begunKeys.length > 0) keys.open().inherit(begunKeys)
  for (const [key, atMs] of passed.proofs) proofs.apply(key, atMs, true)
  for (const [key, entry] of passed.failures) failures.restore(key, entry, clock())
  throttle.block(passed.blocked)
}
