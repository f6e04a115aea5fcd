import { createHmac, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { createMetrics, type Metrics } from '../admin/metrics.ts'
import { openTrail } from '../audit/open-trail.ts'
import type { Trail } from '../audit/trail.ts'
import type { KeySet } from '../auth/keys/jwks.ts'
import { ProofVerifier } from '../auth/possession/dpop.ts'
import { Nonces } from '../auth/possession/nonces.ts'
import type { ReplayMemory } from '../auth/replay.ts'
import { keysOf, trustedIssuers } from '../auth/tokens/issuers.ts'
import { TokenVerifier } from '../auth/tokens/verifier.ts'
import type { ClientTable } from '../config/client-table.ts'
import type { Settings } from '../config/settings.ts'
import type { Gateway, Load } from '../gateway.ts'
import { BodyRoom } from '../http/bodies/body-room.ts'
import { PathTable } from '../http/rules/path-table.ts'
import { readTarget } from '../http/rules/request-target.ts'
import { Tunnels } from '../http/server/tunnels/tunnels.ts'
import { checkedField } from '../http/syntax/field.ts'
import { Slots } from '../http/syntax/slots.ts'
import type { JournalFlags } from '../limits/journal/journal-options.ts'
import { Journal } from '../limits/journal/limit-journal.ts'
import { createUpstreams } from '../upstream/create-upstreams.ts'
import { UpstreamPlaces } from '../upstream/upstream-places.ts'
import { type Watching, watchFiles } from './config-reloads.ts'
import { countersOf, makeSharedState, type SharedState, tendState } from './shared-state.ts'
import type { StartupConfiguration } from './startup-configuration.ts'
import { StoreWatch } from './store-watch.ts'

/** The same fault of the audit trail is logged again after this time. */
const FAULT_EVERY_MS = 1000
const NO_CLIENTS: ClientTable = {
  rows: [],
  byKeyId: new Map(),
  byThumbprint: new Map(),
  bySanDns: new Map(),
  bySanUri: new Map(),
  bySubject: new Map(),
  issuers: new Map(),
}

/** What runs in the background until the gateway stops. */
export interface Background {
  readonly keys: Pick<KeySet, 'start' | 'stop'>
  readonly watching: readonly Watching[]
}

/** The parts of a gateway that its threads share. */
export interface Common {
  readonly state: SharedState
  readonly limiter: Gateway['limiter']
  readonly trail: Trail
  readonly metrics: Metrics
  /** Secret for DPoP nonces; the process id in CDN-Loop is derived from it too. */
  readonly nonceSecret: Uint8Array
  /** Set when there are other workers. */
  readonly load?: Pick<Load, 'tunnels' | 'places'>
}

/** A gateway in one thread. */
interface Assembled {
  readonly gateway: Gateway
  readonly background: Background
  readonly state: SharedState
  /** Watches the files of the shared state. */
  readonly watch: StoreWatch
}

/**
 * Makes the parts of a gateway, and recovers the state of an earlier run: open audit pairs, counts, revocations.
 *
 * @throws when a required file or directory cannot be opened; the message names it.
 */
export function assemble(startup: StartupConfiguration): Assembled {
  const { version, limits } = startup
  const metrics = createMetrics({ version })
  const trail = openTrail(trailOptions(startup, metrics))
  const watch = new StoreWatch({ log: startup.log, metrics, trail })
  const state = makeSharedState(startup, { journal: makeJournal(startup, watch), watch })
  const { limiter } = state
  const common = { state, limiter, trail, metrics, nonceSecret: randomBytes(32) }
  const { gateway, keys } = makeGateway(startup, common)
  const watching = watchFiles({
    ...gateway,
    startup,
    enforce: {
      limits: (rows) => limiter.replace(rows),
      clients: (table) => {
        gateway.clients.table = table
      },
    },
  })
  // Last: with the first table the snapshot of the last run has done its duty and is removed.
  limiter.replace(limits.value)
  tendState(state, watch)
  return { gateway, background: { keys, watching }, state, watch }
}

/** Makes the parts that each thread has for itself, around the shared ones. */
export function makeGateway(
  startup: StartupConfiguration,
  { state, limiter, trail, metrics, nonceSecret, load }: Common,
): { readonly gateway: Gateway; readonly keys: Background['keys'] } {
  const { settings, log } = startup
  const { revocations, deliveries, proofs, throttle } = state
  const { addressRate } = settings
  const { upstreamSecret: secret } = settings
  const upstreamSecret = secret === undefined ? undefined : checkedField('X-Gateway-Secret', secret)
  const issuers = trustedIssuers(settings, {
    upstreamSecret,
    clock: Date.now,
    onFault: (uri, cause) => log.warn({ uri, cause }, 'signing keys'),
  })
  const gateway: Gateway = {
    settings,
    clock: Date.now,
    steadyClock: () => performance.now(),
    log,
    metrics,
    trail,
    addressRate: addressRate && countersOf(addressRate.requests, addressRate.windowMs),
    routes: new PathTable(settings.routes),
    verifier: new TokenVerifier({ issuers, revocations, clock: Date.now }),
    proofs: makeProofs(settings, proofs, nonceSecret),
    throttle,
    revocations,
    clients: { table: startup.clients?.value ?? NO_CLIENTS },
    deliveries,
    tls: { trust: startup.tls?.material.trust },
    limiter,
    upstream: makeUpstream(startup, metrics),
    upstreamSecret,
    load: {
      inFlight: new Slots(),
      ...(load ?? loadAlone(settings)),
      bodyRoom: new BodyRoom(),
      phase: 'serving',
      refusalLog: new Map(),
    },
    loopMark: loopMark(nonceSecret),
  }
  return { gateway, keys: keysOf(issuers) }
}

function loadAlone({ maxInFlight, maxTunnels }: Settings): Pick<Load, 'tunnels' | 'places'> {
  return {
    tunnels: new Tunnels({ steadyClock: () => performance.now(), maxTunnels }),
    places: new UpstreamPlaces({ max: maxInFlight, threads: 1 }),
  }
}

/** The same in all threads of the process, new at each start, and not guessable. */
function loopMark(secret: Uint8Array): string {
  return `countersign; id=${createHmac('sha256', secret).update('CDN-Loop').digest('hex').slice(0, 16)}`
}

function makeProofs({ dpop }: Settings, replays: ReplayMemory, secret: Uint8Array): ProofVerifier {
  const clock = Date.now
  return new ProofVerifier({
    clock,
    replays,
    nonces: dpop.nonce === 'required' ? new Nonces({ secret, clock }) : undefined,
    publicUrls: dpop.publicUrls,
    readTarget,
  })
}

/** Options of the audit trail; its faults and records go to the log and metrics of this thread. */
export function trailOptions({ settings, log, version }: StartupConfiguration, metrics: Metrics) {
  const file = settings.auditFile
  let told = { cause: '', atMs: 0 }
  return {
    file,
    durability: settings.auditDurability,
    version,
    onFault: ({ message: cause }: Error) => {
      metrics.auditWriteError()
      const atMs = performance.now()
      // A full disk fails every request, and the log may be on the same disk.
      if (cause === told.cause && atMs - told.atMs < FAULT_EVERY_MS) return
      told = { cause, atMs }
      log.error({ file, cause }, 'the audit trail cannot be written')
    },
    onRecord: (type: string) => metrics.auditRecord(type),
  }
}

/** @param flags when other threads write to the journal too */
export function makeJournal(
  { settings, log }: StartupConfiguration,
  watch: StoreWatch,
  flags?: JournalFlags,
): Journal {
  return new Journal({
    directory: join(settings.dataDir, 'limits'),
    onFailure: settings.onJournalFailure,
    reports: {
      ignored: (what) => log.warn({ ...what }, 'part of the limit journal could not be read'),
      failed: ({ message }) => watch.fault('limits', message),
      removed: (directory) =>
        watch.removed('limits', `${directory}: removed under the gateway, and begun anew`),
    },
    flags,
  })
}

function makeUpstream({ settings, log }: StartupConfiguration, metrics: Metrics) {
  const { connectMs, headersMs } = settings.timeouts
  for (const upstream of settings.upstreams) metrics.upstreamHealth(upstream, true)
  return createUpstreams({
    urls: settings.upstreams,
    connectMs,
    headersMs,
    // A connection can be still in release when its exchange has ended.
    maxConnections: settings.maxInFlight * 2,
    clock: () => performance.now(),
    onHealth: (upstream, healthy) => {
      metrics.upstreamHealth(upstream, healthy)
      log.warn({ upstream, healthy }, 'upstream health')
    },
  })
}
