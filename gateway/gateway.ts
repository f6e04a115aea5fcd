import type { Logger } from 'pino'
import type { Metrics } from './admin/metrics.ts'
import type { Trail } from './audit/trail.ts'
import type { Deliveries } from './auth/deliveries.ts'
import type { ProofVerifier } from './auth/possession/dpop.ts'
import type { ReplayGuard } from './auth/replay.ts'
import type { Revocations } from './auth/revocations.ts'
import type { AuthThrottle } from './auth/throttle.ts'
import type { TokenVerifier } from './auth/tokens/verifier.ts'
import type { ClientTable } from './config/clients/clients-file.ts'
import type { OperationRules } from './config/openapi/compiled-operations.ts'
import type { Settings } from './config/settings.ts'
import type { BodyRoom } from './edge/bodies/body-room.ts'
import type { Tunnels } from './edge/http1/tunnels/tunnels.ts'
import type { PathTable } from './edge/rules/path-table.ts'
import type { Field } from './edge/syntax/field.ts'
import type { Slots } from './edge/syntax/slots.ts'
import type { Exchange, OngoingForwarding, ServedRoute } from './exchange.ts'
import type { Limiter, PendingTake } from './limits/limiter.ts'
import type { LimitPolicy } from './limits/table/limit-table.ts'
import type { Counters } from './limits/windows/counters.ts'
import type { RefusalCode } from './refusals.ts'
import type { ClientTrust } from './tls/clients/trust.ts'
import type { Tracer } from './tracing/tracer.ts'
import type { UpstreamGroups } from './upstream/upstream-groups.ts'
import type { UpstreamPermits } from './upstream/upstream-permits.ts'

/** How many log lines the refusals of one code may still write. */
interface RefusalLogBudget {
  /** Lines that may be written now. */
  left: number
  /** When `left` was last increased, on the steady clock. */
  atMs: number
  /** Refusals not logged since the last line. */
  unlogged: number
}

/**
 * `draining`: the gateway is stopping; it still serves new requests, and closes each connection after its response.
 * `over`: the drain deadline has come, and nothing more is admitted.
 */
type Phase = 'serving' | 'draining' | 'over'

export interface Load {
  /** Exchanges opened and not closed. Written by open and close. */
  readonly inFlight: Slots<Exchange>
  /** Calls whose client has left, and whose response may still end sessions. Written by forward. */
  readonly orphans: Set<OngoingForwarding>
  /** Upgraded connections. Written by forward. */
  readonly tunnels: Tunnels
  /** Permits to use the upstream. Written by takePermit and close. */
  readonly permits: UpstreamPermits
  /** Memory for bodies that wait for verification. Written by authenticate. */
  readonly bodyRoom: BodyRoom
  /** Written by drain. */
  phase: Phase
  /** By refusal code; undefined: what a browser refuses. Written by logRefusal and logBrowserRefusal. */
  readonly refusalLog: Map<RefusalCode | undefined, RefusalLogBudget>
}

/** The parts that settings decide. An edit of gateway.json replaces all of them together. */
export interface Configured {
  readonly settings: Settings
  /** Undefined: no rate limit per address. */
  readonly addressRate: Pick<Counters, 'take'> | undefined
  readonly routes: PathTable<ServedRoute>
  /** Masks a path that no row serves; undefined: no row masks anything. */
  readonly maskUnrouted: ((path: string) => string) | undefined
  /** What requests of operations must have. Empty unless requests are validated. */
  readonly requestRules: Pick<OperationRules, 'get'>
  readonly verifier: TokenVerifier
  readonly proofs: ProofVerifier
  /** Undefined: failed credentials are not throttled. */
  readonly throttle: AuthThrottle | undefined
  readonly upstreams: UpstreamGroups
  /** X-Gateway-Secret, which authenticates this gateway to the upstreams; undefined when it is not configured. */
  readonly upstreamSecret: Field | undefined
}

type CountedHere = Pick<Limiter, 'find' | 'take' | 'close'> & { readonly ask?: undefined }
type CountedByStore = Pick<Limiter, 'find' | 'close'> & {
  ask(policy: LimitPolicy, key: string): PendingTake
}

/**
 * The parts of a running gateway as a request sees them, passed to every stage. A request has one `Gateway` from its begin to
 * its end; an edit of gateway.json makes another for later ones, with the same unconfigured parts.
 */
export interface Gateway extends Configured {
  /** Wall time in epoch milliseconds, for records and tokens. */
  readonly clock: () => number
  /** Monotonic milliseconds, for durations. */
  readonly steadyClock: () => number
  readonly log: Logger
  readonly metrics: Metrics
  readonly trail: Trail
  readonly revocations: Revocations
  /** The machine callers in force: a reload swaps the reference. */
  readonly clients: { table: ClientTable }
  /** Accepted webhooks, against replay. */
  readonly acceptedWebhooks: ReplayGuard
  /** Webhooks without a signed time, likewise. */
  readonly deliveries: Deliveries
  /** What client certificates are verified against; undefined when clients are not asked for any. A reload swaps it. */
  readonly tls: { trust: ClientTrust | undefined }
  /** Has the limit table in force. */
  readonly limiter: CountedHere | CountedByStore
  /** Undefined: no request is traced. */
  readonly tracer: Tracer | undefined
  readonly load: Load
  /** Identifies this process in CDN-Loop (RFC 8586): a request that carries it has looped. */
  readonly loopMark: string
}

/** The gateway that requests begin with now. */
export interface InForce {
  readonly gateway: Gateway
}
