import { randomBytes } from 'node:crypto'
import { basename, join } from 'node:path'
import type { Logger } from 'pino'
import { createMetrics, type Metrics } from './admin/metrics.ts'
import { openTrail } from './audit/open.ts'
import { configChangeRecord } from './audit/records.ts'
import type { Trail } from './audit/trail.ts'
import { PROOF_LIFETIME_MS, ProofVerifier } from './auth/dpop.ts'
import { keysOf, trustedIssuers } from './auth/issuers.ts'
import type { KeySet } from './auth/jwks.ts'
import { Nonces } from './auth/nonces.ts'
import { ReplayMemory } from './auth/replay.ts'
import { Revocations } from './auth/revocations.ts'
import { AuthThrottle } from './auth/throttle.ts'
import { TokenVerifier } from './auth/verifier.ts'
import { describeFault } from './config/faults.ts'
import type { LoadedFile } from './config/load-file.ts'
import { Reloader } from './config/reload.ts'
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
import { parseLimits } from './limits/table.ts'
import { createUpstreams } from './upstream/upstreams.ts'

/** The same fault of the audit trail is told again after this time. */
const FAULT_EVERY_MS = 1000

/** What main has read before there is a gateway. */
export interface Ground {
  readonly settings: Settings
  readonly limits: LoadedFile<readonly LimitRow[]>
  readonly version: string
  readonly log: Logger
}

/** What runs beside the requests, until the gateway stops. */
export interface Background {
  readonly keys: Pick<KeySet, 'start' | 'stop'>
  readonly reloader: Reloader<readonly LimitRow[]>
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
    limits: { table: limitTable(limits.value) },
    limiter,
    upstream: makeUpstream(ground, metrics),
    load: { inFlight: new Set(), tunnels: new Set(), draining: false, warnedAtMs: new Map() },
  }
  const reloader = watchLimits(gateway, ground)
  // Last: with the first table the snapshot of the last run has done its duty and is removed.
  limiter.replace(limits.value)
  return { gateway, background: { keys: keysOf(issuers), reloader } }
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

/** Every accepted edit is in force, counted and in the audit trail; a bad one only says what is wrong with it. */
function watchLimits(gateway: Gateway, ground: Ground): Reloader<readonly LimitRow[]> {
  const { log, metrics, trail, settings, limiter, limits } = gateway
  const label = basename(settings.limitsFile)
  metrics.configReload(label, 'success')
  return new Reloader({
    file: settings.limitsFile,
    ...ground.limits,
    parse: parseLimits,
    swap: (rows) => {
      const table = limitTable(rows)
      limiter.replace(rows)
      limits.table = table
    },
    onReload: (reload) => {
      const { file, result } = reload
      metrics.configReload(label, result)
      if (result === 'failure') {
        log.error({ file, faults: reload.faults.map(describeFault) }, 'the last good limits stay in force')
        return
      }
      const { changed, before, after } = reload
      const timestamp = new Date(gateway.clock()).toISOString()
      if (changed) trail.settle(configChangeRecord({ timestamp, file, before, after }))
      log.info({ file, rows: after.length, changed }, 'limits in force')
    },
  })
}
