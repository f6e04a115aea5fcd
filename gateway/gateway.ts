import type { Logger } from 'pino'
import type { Metrics } from './admin/metrics.ts'
import type { Trail } from './audit/trail.ts'
import type { Decider } from './auth/decisions/decider.ts'
import type { Deliveries } from './auth/deliveries.ts'
import type { ProofVerifier } from './auth/possession/dpop.ts'
import type { ReplayGuard } from './auth/replay.ts'
import type { Revocations } from './auth/revocations.ts'
import type { ClientKeys } from './auth/signatures/client-keys.ts'
import type { MessageSigner } from './auth/signatures/message-signer.ts'
import type { AuthThrottle } from './auth/throttle.ts'
import type { TokenVerifier } from './auth/tokens/verifier.ts'
import type { ClientTable } from './config/clients/clients-file.ts'
import type { OperationRules } from './config/openapi/compiled-operations.ts'
import type { Settings } from './config/settings.ts'
import type { BodyRoom } from './edge/bodies/body-room.ts'
import type { Tunnels } from './edge/http1/tunnels.ts'
import type { FairPermits } from './edge/rules/fair-share.ts'
import type { PathTable } from './edge/rules/path-table.ts'
import type { Field } from './edge/syntax/field.ts'
import type { Slots } from './edge/syntax/slots.ts'
import type { Exchange, OngoingForwarding, ServedRoute } from './exchange.ts'
import type { KeyKeeper } from './idempotency/key-table.ts'
import type { Caller } from './limits/limit-key.ts'
import type { Limiter, PendingTake } from './limits/limiter.ts'
import type { LimitRow } from './limits/table/limit-table.ts'
import type { Counters } from './limits/windows/counters.ts'
import type { RefusalCode } from './refusals.ts'
import type { ClientOcsp } from './tls/clients/client-ocsp.ts'
import type { ClientTrust } from './tls/clients/trust.ts'
import type { Tracer } from './tracing/tracer.ts'
import type { UpstreamGroups } from './upstream/upstream-groups.ts'

interface RefusalLogBudget {
  left: number
  /** On the steady clock. */
  atMs: number
  unlogged: number
}

/** `draining`: requests are served, and each connection closes after its response. `over`: nothing more is admitted. */
type Phase = 'serving' | 'draining' | 'over'

export interface Load {
  /** Written by open and close. */
  readonly inFlight: Slots<Exchange>
  /** Forwardings that go on without their client. Written by forward. */
  readonly orphans: Set<OngoingForwarding>
  /** Written by forward. */
  readonly tunnels: Tunnels
  /** Written by takePermit, close and forward. */
  readonly permits: FairPermits
  readonly bodyRoom: BodyRoom
  /** Written by drain. */
  phase: Phase
  /** By code; `undefined` is for what a browser refuses. Written by log-refusal. */
  readonly refusalLog: Map<RefusalCode | undefined, RefusalLogBudget>
}

/** An edit of gateway.json replaces all of it together. */
export interface Configured {
  readonly settings: Settings
  readonly addressRate: Pick<Counters, 'take' | 'limitTo'> | undefined
  readonly routes: PathTable<ServedRoute>
  /** For requests without a route; undefined: no row masks anything. */
  readonly maskUnrouted: ((path: string) => string) | undefined
  /** Empty unless requests are validated. */
  readonly requestRules: Pick<OperationRules, 'get'>
  readonly verifier: TokenVerifier
  readonly proofs: ProofVerifier
  readonly throttle: AuthThrottle | undefined
  readonly upstreams: UpstreamGroups
  /** By `key` of a row's `decision`. */
  readonly deciders: ReadonlyMap<string, Decider>
  /** Undefined: no row has `idempotency`. */
  readonly idempotency: KeyKeeper | undefined
  readonly signer: MessageSigner | undefined
  readonly upstreamSecret: Field | undefined
}

type CountedHere = Pick<Limiter, 'find' | 'take'> & { close(): void; readonly ask?: undefined }
type CountedByStore = Pick<Limiter, 'find'> & {
  close(): void
  ask(row: LimitRow, key: string, caller: Caller): PendingTake
}

/** A request keeps one `Gateway` to its end. */
export interface Gateway extends Configured {
  /** Epoch milliseconds. */
  readonly clock: () => number
  /** Monotonic milliseconds. */
  readonly steadyClock: () => number
  readonly log: Logger
  readonly metrics: Metrics
  readonly trail: Trail
  readonly revocations: Revocations
  /** A reload swaps the table. */
  readonly clients: { table: ClientTable }
  readonly signers: ClientKeys
  readonly acceptedSignatures: ReplayGuard
  readonly acceptedWebhooks: ReplayGuard
  /** Webhooks without a signed time. */
  readonly deliveries: Deliveries
  /** Trust is undefined when clients are not asked for certificates. */
  readonly tls: { trust: ClientTrust | undefined; readonly ocsp?: ClientOcsp | undefined }
  readonly limiter: CountedHere | CountedByStore
  readonly tracer: Tracer | undefined
  readonly load: Load
  /** Name of this process in CDN-Loop (RFC 8586). */
  readonly loopMark: string
}

export interface InForce {
  readonly gateway: Gateway
}
