import { randomBytes } from 'node:crypto'
import { ConfigInForce } from '../admin/config-in-force.ts'
import { createMetrics } from '../admin/metrics.ts'
import { continueTrail, openTrail } from '../audit/open-trail.ts'
import type { Limits } from '../limits/table/limit-table.ts'
import { randomDayKey, TicketKeys } from '../tls/listener/ticket-keys.ts'
import { trailOptions } from './data-files.ts'
import { closeParts, drain, type Stop } from './drain.ts'
import { GatewayInForce } from './gateway-in-force.ts'
import {
  type GatewayState,
  gatewayIdOf,
  maintenanceOf,
  makeGatewayState,
  reachStore,
  restoreState,
  takeFilesBack,
  takeState,
  whyDegraded,
  whyNotHandedOver,
  whyUnready,
} from './gateway-state.ts'
import { openPublicListeners, type PublicListeners } from './public-listeners.ts'
import { watchFiles, watchTls } from './reload/config-reloads.ts'
import { checkNow, type Watching } from './reload/reload-reports.ts'
import { ConnectionHandOver } from './restart/connection-hand-over.ts'
import { HandOver, type HandOverParts, type StateFiles } from './restart/hand-over.ts'
import type { PassedState } from './restart/messages.ts'
import type { Inheritance } from './restart/predecessor.ts'
import { adoptConnection, type ListeningSockets } from './restart/sockets.ts'
import { prepareSeals, sealTrail } from './seal-trail.ts'
import type { StartupConfiguration } from './startup/read-configuration.ts'
import { saveMemory } from './startup/save-memory.ts'
import { StoreWatch } from './store-watch.ts'

const MAINTAIN_MS = 1000

interface Origin {
  /** Undefined when the gateway starts by itself. */
  readonly inheritance?: Inheritance | undefined
  readonly sockets?: ListeningSockets | undefined
}

export type ServingGateway = ReturnType<typeof serve>

/** @throws what `assemble` throws */
export function serve(startup: StartupConfiguration, { inheritance, sockets }: Origin) {
  const { inForce, state, watch, inherited } = assemble(startup, inheritance?.state)
  const { trail, metrics, load, clients, tls: trust } = inForce.gateway
  const files = keepFiles(state, watch, inForce)
  const tickets = new TicketKeys(inheritance?.state.tickets ?? randomDayKey(Date.now()))
  let open: PublicListeners | undefined
  let handOver: HandOver | undefined
  const reports = { ...inForce.gateway, config: new ConfigInForce(startup) }
  const enforce = enforceIn(state, inForce, () => open?.boundClients())
  const watching: Watching[] = watchFiles({ ...reports, startup, tls: trust, enforce })
  const unwatch = () => {
    for (const each of watching) each.stop()
    files.stop()
    inForce.stopKeys()
  }
  const notReady = () => {
    if (open === undefined) return 'starting'
    if (load.phase !== 'serving') return 'draining'
    return trail.recheck() ? whyUnready(state, startup.settings) : 'the audit trail cannot be written'
  }
  metrics.gateway_ready.read(() => (notReady() === undefined ? 1 : 0))
  return {
    trail,
    metrics,
    limiter: state.limiter,
    reports,
    watch: (file: Watching) => void watching.push(file),
    get settings() {
      return inForce.gateway.settings
    },
    /** Undefined while no other process can take over. */
    get handOver() {
      return handOver
    },
    /** Resolves when requests are served. @throws CannotListen */
    begin: async () => {
      const { settings, tls } = startup
      for (const warning of tls?.material.warnings ?? []) startup.log.warn({ warning }, 'check the TLS files')
      // On inherited sockets and on a shared port, connections come before anyone asks for readiness.
      if (inheritance !== undefined || settings.reusePort) await reachStore(state.member)
      open = await openPublicListeners(inForce, { material: tls?.material, tickets, open: sockets })
      if (settings.tls !== undefined && tls !== undefined) {
        const { enforce, staple } = open
        const watched = { settings: settings.tls, loaded: tls, enforce, staple, clients: () => clients.table }
        watching.push(...watchTls(reports, watched))
      }
      inForce.startKeys()
      handOver = handOverOf({ inForce, state, open, files, tickets, unwatch })
      const { connections } = open
      inheritance?.predecessor.serve({
        ...{ trail, inherited },
        revocations: state.revocations,
        memories: state,
        keys: state.keys,
        clock: state.clock,
        adopt: (passed) => connections.accept(adoptConnection(passed), passed.clear !== undefined),
      })
      return open
    },
    notReady,
    degraded: () => whyDegraded(state),
    /** Resolves when the results have been reported. */
    reload: () => checkNow(watching),
    drain: async (stop: Stop) => {
      await drain(inForce, stop, {
        listeners: open?.listeners ?? [],
        graceOver: unwatch,
        beforeClose: () => inheritance?.predecessor.over(stop.hurry),
      })
      state.member?.close()
    },
    abandon: async (reason: string) => {
      await closeParts(inForce, reason)
      state.member?.close()
    },
  }
}

interface HandedOver extends Pick<HandOverParts, 'files' | 'tickets' | 'unwatch'> {
  readonly state: GatewayState
  readonly inForce: GatewayInForce
  readonly open: PublicListeners
}

function handOverOf({ inForce, state, open, ...parts }: HandedOver): HandOver {
  const { trail, log } = inForce.gateway
  return new HandOver({
    ...parts,
    log,
    trail,
    connections: new ConnectionHandOver(inForce, open),
    revocations: state.revocations,
    clock: state.clock,
    memories: state,
    keys: state.keys,
    obstacle: () => whyNotHandedOver(trail, state),
    close: () => state.member?.close(),
  })
}

function enforceIn({ limiter }: GatewayState, inForce: GatewayInForce, whenBound: () => void) {
  const { clients, signers } = inForce.gateway
  return {
    limits: ({ rows, plans }: Limits) => limiter.replace(rows, plans),
    clients: (table: typeof clients.table) => {
      clients.table = table
      signers.replace(table.signers)
    },
    settings: (settings: StartupConfiguration['settings']) => {
      inForce.replace(settings)
      whenBound()
    },
  }
}

/** Maintains the files of the state, except while another process may have them. */
function keepFiles(
  state: GatewayState,
  watch: StoreWatch,
  inForce: GatewayInForce,
): Pick<Watching, 'stop'> & StateFiles {
  const { limiter } = state
  const parts = maintenanceOf(state, watch)
  let turn = 0
  const maintainNext = () => parts[turn++ % parts.length]?.()
  const start = () => setInterval(maintainNext, MAINTAIN_MS / parts.length).unref()
  let timer = start()
  return {
    stop: () => clearInterval(timer),
    suspend: () => {
      clearInterval(timer)
      for (const maintain of parts) maintain()
      if (!limiter.close()) throw new Error('limits cannot be written')
      return takeState(state, inForce.lastGoodKeys())
    },
    resume: () => {
      limiter.reopen()
      takeFilesBack(state)
      state.keys.table?.resume()
      timer = start()
    },
  }
}

/** Recovers the state of an earlier run. @throws Error that names a file or directory that cannot be opened */
function assemble(startup: StartupConfiguration, passed?: PassedState) {
  const { settings, log, version } = startup
  saveMemory(settings.memoryProfile)
  const metrics = createMetrics({ version })
  const seals = prepareSeals(startup)
  const options = { ...trailOptions(startup, metrics), isSealed: seals !== undefined }
  const { trail, inherited } =
    passed === undefined ? { trail: openTrail(options), inherited: undefined } : continueTrail(options)
  metrics.gateway_audit_records_pending.read(() => trail.uncommittedRecords)
  metrics.gateway_audit_writable.read(() => (trail.writable ? 1 : 0))
  sealTrail(startup, seals, { trail, metrics })
  const watch = new StoreWatch({ log, metrics, trail })
  const secret = randomBytes(32)
  const state = makeGatewayState(startup, {
    watch,
    gatewayId: gatewayIdOf(secret),
    clockAheadMs: passed?.clockAheadMs,
  })
  const inForce = new GatewayInForce(startup, { state, trail, metrics, secret })
  // Last, because the first table removes the snapshot of the last run.
  const { rows, plans } = startup.limits.value
  state.limiter.replace(rows, plans)
  for (const maintain of maintenanceOf(state, watch)) maintain()
  if (passed !== undefined) {
    restoreState(passed, state)
    inForce.restoreKeys(passed.keys)
  }
  return { inForce, state, watch, inherited }
}
