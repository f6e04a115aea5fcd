import type { Logger } from 'pino'
import type { Metrics } from './admin/metrics.ts'
import type { Trail } from './audit/trail.ts'
import type { ProofVerifier } from './auth/possession/dpop.ts'
import type { ReplayMemory } from './auth/replay.ts'
import type { Revocations } from './auth/revocations.ts'
import type { AuthThrottle } from './auth/throttle.ts'
import type { TokenVerifier } from './auth/tokens/verifier.ts'
import type { ClientTable } from './config/client-table.ts'
import type { Route, Settings } from './config/settings.ts'
import type { Exchange } from './exchange.ts'
import type { BodyRoom } from './http/bodies/body-room.ts'
import type { PathTable } from './http/rules/path-table.ts'
import type { Tunnels } from './http/server/tunnels/tunnels.ts'
import type { Field } from './http/syntax/field.ts'
import type { Slots } from './http/syntax/slots.ts'
import type { Limiter } from './limits/limiter.ts'
import type { Counters } from './limits/windows/counters.ts'
import type { RefusalCode } from './refusals.ts'
import type { ClientTrust } from './tls/clients/trust.ts'
import type { UpstreamClient } from './upstream/upstream-client.ts'
import type { UpstreamPlaces } from './upstream/upstream-places.ts'

/** How much of the log is left for the refusals of one code. */
export interface RefusalLogBudget {
  /** Lines that may be written now. */
  left: number
  /** Up to when `left` has been added to, on the steady clock. */
  atMs: number
  /** Since the last line. */
  unlogged: number
}

/**
 * `draining`: told to stop; whoever still comes is served, and each connection ends with its response. `over`: the drain's
 * deadline has come, and nothing more is admitted.
 */
type Phase = 'serving' | 'draining' | 'over'

/** What the gateway is doing at this moment. */
export interface Load {
  /** Exchanges opened and not closed. Written by open and close. */
  readonly inFlight: Slots<Exchange>
  /** Upgraded connections that are being tunnelled. Written by forward. */
  readonly tunnels: Tunnels
  /** What exchanges take that use the upstream. Written by occupy and close. */
  readonly places: UpstreamPlaces
  /** Written by authenticate. */
  readonly bodyRoom: BodyRoom
  /** Written by drain. */
  phase: Phase
  /** What of the refusals of each code has been logged. Written by note. */
  readonly refusalLog: Map<RefusalCode, RefusalLogBudget>
}

/** The parts of a running gateway, made once in main and passed to every stage. */
export interface Gateway {
  readonly settings: Settings
  /** Wall time in milliseconds since the epoch: what records and tokens are dated by. */
  readonly clock: () => number
  /** Milliseconds that only ever pass: what durations are measured by. */
  readonly steadyClock: () => number
  readonly log: Logger
  readonly metrics: Metrics
  readonly trail: Trail
  /** Undefined: an address may send any number of requests. Each worker counts by itself. */
  readonly addressRate: Pick<Counters, 'take'> | undefined
  readonly routes: PathTable<Route>
  readonly verifier: TokenVerifier
  readonly proofs: ProofVerifier
  /** Undefined: any number of bad credentials is looked at. */
  readonly throttle: AuthThrottle | undefined
  readonly revocations: Revocations
  /** The machine callers in force: a reload swaps the reference. */
  readonly clients: { table: ClientTable }
  /** Webhooks that were accepted. */
  readonly deliveries: ReplayMemory
  /** What client certificates are held against, in force now; undefined when none are asked for. */
  readonly tls: { trust: ClientTrust | undefined }
  /** Has the limit table in force. */
  readonly limiter: Pick<Limiter, 'find' | 'take' | 'close'>
  readonly upstream: UpstreamClient
  /** X-Gateway-Secret, which proves this gateway to the upstreams; undefined when nothing does. */
  readonly upstreamSecret: Field | undefined
  readonly load: Load
  /** Names this process in CDN-Loop (RFC 8586); a request that comes with it has come round. */
  readonly loopMark: string
}
