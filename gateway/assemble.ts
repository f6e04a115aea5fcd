import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { createMetrics, type Metrics } from './admin/metrics.ts'
import { openTrail } from './audit/open.ts'
import type { Trail } from './audit/trail.ts'
import { PROOF_LIFETIME_MS, ProofVerifier } from './auth/dpop.ts'
import { keysOf, trustedIssuers } from './auth/issuers.ts'
import type { KeySet } from './auth/jwks.ts'
import { Nonces } from './auth/nonces.ts'
import { ReplayMemory } from './auth/replay.ts'
import { Revocations } from './auth/revocations.ts'
import { AuthThrottle } from './auth/throttle.ts'
import { TokenVerifier } from './auth/verifier.ts'
import { WEBHOOK_TOLERANCE_SECONDS } from './auth/webhook-signature.ts'
import type { ClientTable } from './config/clients.ts'
import type { LoadedFile } from './config/load-file.ts'
import type { Settings } from './config/settings.ts'
import type { Gateway } from './gateway.ts'
import { PathTable } from './http/path-table.ts'
import { readTarget } from './http/target.ts'
import { steadyClock } from './limits/clock.ts'
import { Counters, Room } from './limits/counters.ts'
import { Journal } from './limits/journal.ts'
import { Limiter } from './limits/limiter.ts'
import { limitTable } from './limits/policies.ts'
import type { LimitRow } from './limits/row.ts'
import { type Watching, watchFiles } from './reloads.ts'
import type { LoadedTls } from './tls/reload.ts'
import { createUpstreams } from './upstream/upstreams.ts'

/** The same fault of the audit trail is told again after this time. */
const FAULT_EVERY_MS = 1000
const NO_CLIENTS: ClientTable = {
  rows: [],
  byKeyId: new Map(),
  byThumbprint: new Map(),
  bySanDns: new Map(),
  bySanUri: new Map(),
  bySubject: new Map(),
}

/** What main has read before there is a gateway. */
export interface Ground {
  readonly settings: Settings
  readonly limits: LoadedFile<readonly LimitRow[]>
  readonly clients: LoadedFile<ClientTable> | undefined
  readonly tls: LoadedTls | undefined
  readonly version: string
  readonly log: Logger
}

/** What runs beside the requests, until the gateway stops. */
export interface Background {
  readonly keys: Pick<KeySet, 'start' | 'stop'>
  readonly watching: readonly Watching[]
}

/**
 * Makes the parts of a gateway, each once, and recovers what an earlier run left: open audit pairs, counts, revocations.
 *
 * @throws when a file or directory that nothing can be done without cannot be opened; the message names it.
 */
export function assemble(ground: Ground): { readonly gateway: Gateway; readonly background: Background } {
  const { settings, log, limits } = ground
  const metrics = createMetrics({ version: ground.version })
  const trail = makeTrail(ground, metrics)
  const limiter = makeLimiter(ground)
  const issuers = trustedIssuers(settings, {
    clock: Date.now,
    onFault: (uri, cause) => log.warn({ uri, cause }, 'signing keys'),
  })
  const revocations = new Revocations({
    dataDir: settings.dataDir,
    clock: Date.now,
    onFault: (cause) => log.error({ cause }, 'revocations'),
  })
  const gateway: Gateway = {
    settings,
    clock: Date.now,
    steadyClock: () => performance.now(),
    log,
    metrics,
    trail,
    routes: new PathTable(settings.routes),
    verifier: new TokenVerifier({ issuers, revocations, clock: Date.now }),
    proofs: makeProofs(settings),
    throttle: makeThrottle(settings),
    revocations,
    clients: { table: ground.clients?.value ?? NO_CLIENTS },
    deliveries: makeDeliveries(ground),
    tls: { trust: ground.tls?.material.trust },
    limits: { table: limitTable(limits.value) },
    limiter,
    upstream: makeUpstream(ground, metrics),
    load: {
      inFlight: new Set(),
      tunnels: new Set(),
      gathered: { bytes: 0, ofAddress: new Map() },
      draining: false,
      warnedAtMs: new Map(),
    },
  }
  const watching = watchFiles(gateway, ground)
  // Last: with the first table the snapshot of the last run has done its duty and is removed.
  limiter.replace(limits.value)
  return { gateway, background: { keys: keysOf(issuers), watching } }
}

function makeProofs({ dpop }: Settings): ProofVerifier {
  const clock = Date.now
  return new ProofVerifier({
    clock,
    replays: new ReplayMemory({ lifetimeMs: PROOF_LIFETIME_MS, clock }),
    nonces: dpop.nonce === 'required' ? new Nonces({ secret: randomBytes(32), clock }) : undefined,
    publicUrls: dpop.publicUrls,
    readTarget,
  })
}

/** A delivery is acceptable from so long before our time until so long after it, and remembered for all of it. */
function makeDeliveries({ settings, log }: Ground): ReplayMemory {
  return new ReplayMemory({
    // A second more, because timestamps have no fractions.
    lifetimeMs: (2 * WEBHOOK_TOLERANCE_SECONDS + 1) * 1000,
    clock: Date.now,
    store: {
      dataDir: settings.dataDir,
      name: 'webhooks',
      onFault: (cause) => log.error({ cause }, 'accepted webhooks'),
    },
  })
}

function makeThrottle({ authThrottle: { failures, windowMs } }: Settings): AuthThrottle | undefined {
  if (failures === 0) return undefined
  const room = new Room()
  room.divide([0])
  const record = {
    id: 0,
    name: 'auth',
    path: '*',
    methods: null,
    limit: failures,
    windowMs,
    horizonMs: null,
  }
  return new AuthThrottle({
    counter: new Counters(record, room),
    clock: steadyClock(),
  })
}

function makeTrail({ settings, log, version }: Ground, metrics: Metrics): Trail {
  const file = settings.auditFile
  let told = { cause: '', atMs: 0 }
  return openTrail({
    file,
    version,
    onFault: ({ message: cause }) => {
      metrics.auditWriteError()
      const atMs = performance.now()
      // A full disk fails every request, and the log may be on the same disk.
      if (cause === told.cause && atMs - told.atMs < FAULT_EVERY_MS) return
      told = { cause, atMs }
      log.error({ file, cause }, 'the audit trail cannot be written')
    },
    onRecord: (type) => metrics.auditRecord(type),
  })
}

function makeLimiter({ settings, log }: Ground): Limiter {
  const directory = join(settings.dataDir, 'limits')
  const journal = new Journal({
    directory,
    reports: {
      ignored: (what) => log.warn({ ...what }, 'part of the limit journal could not be read'),
      failed: (error) =>
        log.error({ directory, cause: error.message }, 'the limit journal cannot be written'),
    },
  })
  return new Limiter({ clock: steadyClock(), journal })
}

function makeUpstream({ settings, log }: Ground, metrics: Metrics) {
  const { connectMs, headersMs, bodyIdleMs } = settings.timeouts
  for (const upstream of settings.upstreams) metrics.upstreamHealth(upstream, true)
  return createUpstreams({
    urls: settings.upstreams,
    connectMs,
    headersMs,
    bodyIdleMs,
    // An exchange can be over while its connection still is being given back.
    maxConnections: settings.maxInFlight * 2,
    clock: () => performance.now(),
    onHealth: (upstream, healthy) => {
      metrics.upstreamHealth(upstream, healthy)
      log.warn({ upstream, healthy }, 'upstream health')
    },
  })
}
