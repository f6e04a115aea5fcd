import { parentPort } from 'node:worker_threads'
import type { MetricsSnapshot } from '../admin/merged-metrics.ts'
import { createMetrics } from '../admin/metrics.ts'
import { joinTrail } from '../audit/open-trail.ts'
import type { Settings } from '../config/settings.ts'
import type { Load } from '../gateway.ts'
import { Tunnels } from '../http/server/tunnels/tunnels.ts'
import { LockedLimiter } from '../limits/locked-limiter.ts'
import { trailOptions } from '../process/data-files.ts'
import { drain } from '../process/drain.ts'
import { GatewayInForce } from '../process/gateway-in-force.ts'
import { openPublicListeners, type PublicListeners } from '../process/public-listeners.ts'
import { gatewayIdOf, reachStore } from '../process/shared-state.ts'
import { saveMemory } from '../process/startup/thread-memory.ts'
import { loadStoreModule, type StartupConfiguration } from '../process/startup-configuration.ts'
import { StoreWatch } from '../process/store-watch.ts'
import { operationalLog } from '../terminal/operational-log.ts'
import { TicketKeys } from '../tls/listener/ticket-keys.ts'
import { parseTls, type TlsTexts } from '../tls/listener/tls-context.ts'
import { UpstreamPermits } from '../upstream/upstream-permits.ts'
import { commonClock } from './event-clock.ts'
import { EventLog } from './event-log.ts'
import { joinState } from './replication.ts'
import { WorkerHandOver } from './worker-hand-over.ts'
import type { WorkerCommand, WorkerConfiguration, WorkerMessage } from './worker-messages.ts'

/** How often an idle worker catches up. */
const CATCH_UP_MS = 20
/** How often an idle worker retries an audit trail that could not be written. */
const TRAIL_RECHECK_MS = 1000

/** How often a worker sends what it could not send to the shared store. */
const STORE_MAINTENANCE_MS = 1000

/** Commands that come before this worker serves wait. */
const early: WorkerCommand[] = []
let obey = (command: WorkerCommand): void => void early.push(command)
parentPort?.on('message', (command: WorkerCommand) => {
  if (command.type === 'begin') void main(command.configuration)
  else obey(command)
})
send({ type: 'loaded' })

/** A worker thread: serves requests, and shares its state with all other threads. */
async function main(configuration: WorkerConfiguration): Promise<void> {
  const startup = await startupOf(configuration)
  saveMemory(startup.settings.memoryProfile)
  const metrics = createMetrics({ version: startup.version, worker: true })
  const eventLog = new EventLog({
    memory: configuration.memory,
    seat: configuration.seat,
    clock: commonClock(configuration.originMs),
    onLost: (error) => {
      startup.log.fatal({ err: error }, 'a worker cannot go on')
      process.exit(1)
    },
  })
  const trail = joinTrail(configuration.trail, trailOptions(startup, metrics))
  metrics.auditPending(() => trail.uncommittedRecords)
  const watch = new StoreWatch({ log: startup.log, metrics, trail })
  const state = joinState(configuration, {
    startup,
    watch,
    eventLog,
    gatewayId: gatewayIdOf(configuration.secret),
    threadId: configuration.seat,
  })
  const inForce = new GatewayInForce(startup, {
    state,
    limiter: new LockedLimiter(state.limiter, eventLog),
    trail,
    metrics,
    secret: configuration.secret,
    load: sharedLoad(eventLog, startup.settings),
  })
  setInterval(() => {
    eventLog.catchUp()
    eventLog.heartbeat(trail.writable)
  }, CATCH_UP_MS).unref()
  await reachStore(state.member)
  inForce.restoreKeys(configuration.keys)
  const listeners = await openPublicListeners(inForce, {
    material: startup.tls?.material,
    tickets: new TicketKeys(configuration.tickets),
    shared: true,
    open: configuration.open,
  })
  listeners.staple(configuration.staple)
  setInterval(() => trail.recheck(), TRAIL_RECHECK_MS).unref()
  setInterval(() => {
    state.member?.maintain()
    watch.repeat()
  }, STORE_MAINTENANCE_MS).unref()
  inForce.startKeys()
  const handOver = new WorkerHandOver(inForce, listeners, send)
  obey = obeyWith(inForce, listeners, handOver)
  for (const command of early.splice(0)) obey(command)
  send({ type: 'serving' })
}

/** The configuration as the main thread read it: the files may have changed since. */
async function startupOf({
  name,
  settings,
  rows,
  clients,
  tls,
  version,
}: WorkerConfiguration): Promise<StartupConfiguration> {
  return {
    settings,
    texts: new Map(),
    version,
    log: operationalLog(settings.logLevel, { worker: name }),
    limits: { text: '', value: rows },
    clients: clients && { text: '', value: clients },
    tls: tls && { texts: tls, material: materialOf(settings.tls, tls) },
    storeModule: await loadStoreModule(settings),
  }
}

/** The main thread has validated the texts. */
function materialOf(files: Settings['tls'], texts: TlsTexts) {
  const parsed = files === undefined ? undefined : parseTls(files, texts, Date.now())
  if (parsed?.value === undefined) throw new Error('the TLS files that the main thread accepted are faulty')
  return parsed.value
}

/** Tunnels and upstream permits are bounded over all workers together. */
function sharedLoad(eventLog: EventLog, settings: Settings): Pick<Load, 'tunnels' | 'permits'> {
  const permits = new UpstreamPermits({
    max: settings.maxInFlight,
    threads: settings.workers,
    takenByOthers: () => eventLog.countOnOthers('exchanges'),
    publish: (count) => eventLog.publishCount('exchanges', count),
  })
  const tunnels = new Tunnels({
    steadyClock: () => performance.now(),
    maxTunnels: settings.maxTunnels,
    threads: settings.workers,
    publish: (count) => eventLog.publishCount('tunnels', count),
    onOtherThreads: () => eventLog.countOnOthers('tunnels'),
  })
  return { tunnels, permits }
}

function obeyWith(inForce: GatewayInForce, listeners: PublicListeners, handOver: WorkerHandOver) {
  const { clients, settings, metrics } = inForce.gateway
  const hurry = Promise.withResolvers<void>()
  return (command: WorkerCommand): void => {
    switch (command.type) {
      case 'begin':
        break
      case 'clients':
        clients.table = command.table
        break
      case 'settings':
        inForce.replace(command.settings)
        listeners.boundClients()
        break
      case 'tls':
        listeners.enforce(materialOf(settings.tls, command.texts))
        break
      case 'staple':
        listeners.staple(command.staple)
        break
      case 'hurry':
        hurry.resolve()
        break
      case 'report':
        void metrics.snapshot().then((report) => send({ type: 'report', report }))
        break
      case 'drain': {
        const stop = { reason: command.reason, graceMs: command.graceMs, hurry: hurry.promise }
        const stopped = drain(inForce, stop, { ...listeners, graceOver: () => inForce.stopKeys() })
        void stopped.then(() => process.exit(0))
        break
      }
      default:
        handOver.obey(command, hurry.promise)
    }
  }
}

function send(message: WorkerMessage<MetricsSnapshot>): void {
  parentPort?.postMessage(message)
}
