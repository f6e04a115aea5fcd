import { parentPort, workerData } from 'node:worker_threads'
import { destination, pino } from 'pino'
import type { MetricsSnapshot } from '../admin/merged-metrics.ts'
import { createMetrics, type Metrics } from '../admin/metrics.ts'
import { joinTrail } from '../audit/open-trail.ts'
import type { Settings } from '../config/settings.ts'
import type { Gateway, Load } from '../gateway.ts'
import { Tunnels } from '../http/server/tunnels/tunnels.ts'
import { SharedLimiter } from '../limits/shared-limiter.ts'
import { makeGateway, trailOptions } from '../process/assemble.ts'
import { drain } from '../process/drain.ts'
import { openPublicListeners, type PublicListeners } from '../process/public-listeners.ts'
import type { StartupConfiguration } from '../process/startup-configuration.ts'
import { StoreWatch } from '../process/store-watch.ts'
import { parseTls, type TlsTexts } from '../tls/listener/tls-context.ts'
import { UpstreamPlaces } from '../upstream/upstream-places.ts'
import { commonClock } from './event-clock.ts'
import { EventLog } from './event-log.ts'
import type { WorkerCommand, WorkerConfiguration } from './worker-configuration.ts'
import type { Question, Report } from './worker-messages.ts'
import { joinState } from './worker-state.ts'

/** How often an idle worker catches up. */
const CATCH_UP_MS = 20
/** How often an idle worker retries an audit trail that could not be written. */
const TRAIL_RECHECK_MS = 1000

await main(workerData as WorkerConfiguration)

/** A worker thread: serves requests, and shares its state with all other threads. */
async function main(begun: WorkerConfiguration): Promise<void> {
  const startup = startupOf(begun)
  const metrics = createMetrics({ version: begun.version, worker: true })
  const eventLog = new EventLog({
    memory: begun.memory,
    seat: begun.seat,
    clock: commonClock(begun.originMs),
    onLost: (error) => {
      startup.log.fatal({ err: error }, 'a worker cannot go on')
      process.exit(1)
    },
  })
  const { gateway, keys } = join(begun, { startup, metrics, eventLog })
  const open = await openPublicListeners(gateway, { material: startup.tls?.material, shared: true })
  setInterval(() => {
    eventLog.catchUp()
    eventLog.beat(gateway.trail.writable)
  }, CATCH_UP_MS).unref()
  setInterval(() => gateway.trail.recheck(), TRAIL_RECHECK_MS).unref()
  // Without bearer tokens no keys are needed, and there may be no server for them.
  if (gateway.settings.routes.some((route) => route.auth.has('bearer'))) keys.start()
  followCommands({ gateway, metrics, open, keys })
  report({ type: 'serving' })
}

/** The configuration as the main thread read it; the files may have changed since. */
function startupOf({
  name,
  settings,
  rows,
  clients,
  tls,
  version,
}: WorkerConfiguration): StartupConfiguration {
  const stderr = destination({ fd: 2, sync: true })
  stderr.on('error', () => {})
  return {
    settings,
    version,
    log: pino({ level: settings.logLevel, base: { worker: name } }, stderr),
    limits: { text: '', value: rows },
    clients: clients && { text: '', value: clients },
    tls: tls && { texts: tls, material: materialOf(settings.tls, tls) },
  }
}

/** The main thread has validated the texts. */
function materialOf(files: Gateway['settings']['tls'], texts: TlsTexts) {
  const parsed = files === undefined ? undefined : parseTls(files, texts, Date.now())
  if (parsed?.value === undefined) throw new Error('what the main thread found good is not')
  return parsed.value
}

interface Joining {
  readonly startup: StartupConfiguration
  readonly metrics: Metrics
  readonly eventLog: EventLog
}

/** Makes this thread's parts around its copy of the shared state. */
function join(begun: WorkerConfiguration, { startup, metrics, eventLog }: Joining) {
  const trail = joinTrail(begun.trail, trailOptions(startup, metrics))
  const state = joinState(begun, {
    startup,
    watch: new StoreWatch({ log: startup.log, metrics, trail }),
    eventLog,
  })
  return makeGateway(startup, {
    state,
    limiter: new SharedLimiter(state.limiter, eventLog),
    trail,
    metrics,
    nonceSecret: begun.nonceSecret,
    load: loadOver(eventLog, startup.settings),
  })
}

/** Tunnels and upstream places are bounded over all workers together. */
function loadOver(eventLog: EventLog, settings: Settings): Pick<Load, 'tunnels' | 'places'> {
  const places = new UpstreamPlaces({
    max: settings.maxInFlight,
    threads: settings.workers,
    takenByOthers: () => eventLog.countElsewhere('exchanges'),
    publish: (count) => eventLog.publishCount('exchanges', count),
  })
  const tunnels = new Tunnels({
    steadyClock: () => performance.now(),
    maxTunnels: settings.maxTunnels,
    publish: (count) => eventLog.publishCount('tunnels', count),
    elsewhere: () => eventLog.countElsewhere('tunnels'),
  })
  return { tunnels, places }
}

interface Commanded {
  readonly gateway: Gateway
  readonly metrics: Metrics
  readonly open: PublicListeners
  readonly keys: { stop(): void }
}

function followCommands({ gateway, metrics, open, keys }: Commanded): void {
  const hurry = Promise.withResolvers<void>()
  parentPort?.on('message', (message: WorkerCommand | Question) => {
    if (message.type === 'clients') gateway.clients.table = message.table
    else if (message.type === 'tls') open.enforce(materialOf(gateway.settings.tls, message.texts))
    else if (message.type === 'hurry') hurry.resolve()
    else if (message.type === 'ask') {
      void metrics.snapshot().then((answer) => report({ type: 'answer', id: message.id, answer }))
    } else {
      const { reason, graceMs } = message
      const { listeners } = open
      const stopped = drain(
        gateway,
        { reason, graceMs, hurry: hurry.promise },
        { listeners, graceOver: () => keys.stop() },
      )
      void stopped.then(() => process.exit(0))
    }
  })
}

function report(message: Report<MetricsSnapshot>): void {
  parentPort?.postMessage(message)
}
