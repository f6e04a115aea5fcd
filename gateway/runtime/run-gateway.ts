import { configRoutes, metricsRoute, probeRoutes } from '../admin/admin-routes.ts'
import { AdminGuard, createAdminServer } from '../admin/admin-server.ts'
import { ConsoleFeed } from '../admin/console/console-feed.ts'
import { consoleRoutes } from '../admin/console/console-routes.ts'
import { clockOffset } from '../audit/clock-offset.ts'
import { Rotation } from '../audit/segments/rotation.ts'
import { SegmentThread } from '../audit/segments/segment-thread.ts'
import { describeFault, showFault } from '../config/faults.ts'
import { isTerminal, operationalLog } from '../terminal/operational-log.ts'
import { attestTrail } from './attest-trail.ts'
import { certificateWarnings, fileWarnings, reusePortWarnings, settingsWarnings } from './config-warnings.ts'
import { segmentReports } from './data-files.ts'
import { listen, startFailure } from './public-listeners.ts'
import { watchAdminToken } from './reload/config-reloads.ts'
import { ControlSocket } from './restart/control-socket.ts'
import { Predecessor } from './restart/predecessor.ts'
import { placesOf, Restarts } from './restart/restarts.ts'
import { trailWarnings } from './seal-trail.ts'
import { type ServingGateway, serve } from './serving-gateway.ts'
import { socketsFromSystemd } from './startup/activated-sockets.ts'
import {
  loadStoreModule,
  readAgain,
  readConfiguration,
  type StartupConfiguration,
} from './startup/read-configuration.ts'
import { notifyServiceManager, startWatchdog } from './startup/service-manager.ts'
import { startBanner } from './startup/start-banner.ts'

const UNUSABLE = 1
/** Signals within this time count as one: under npm, Ctrl-C arrives twice. */
const SAME_CTRL_C_MS = 1000
const TRAIL_MAINTAIN_MS = 1000
const SEGMENT_ROUND_MS = 5000

/** Runs until it is asked to stop or another process takes over. Exits with 1 when it cannot start. */
export async function runGateway(): Promise<void> {
  // The files are for this user only.
  process.umask(0o077)
  const predecessor = Predecessor.find()
  const stop = listenForStop(predecessor)
  const startup = await readStartupConfiguration(predecessor)
  const { settings, log } = startup
  const { serving, admin, attestation } = await start(startup, predecessor)
  const tellSystemd = (...states: string[]) =>
    notifyServiceManager(states, ({ message: cause }) =>
      log.warn({ cause }, 'systemd could not be told the state of the gateway'),
    )
  // After a restart the main process is another one.
  void tellSystemd('READY=1', `MAINPID=${process.pid}`)
  startWatchdog(() => void tellSystemd('WATCHDOG=1'))
  // A parent restarts only a process that has sent this. The callback keeps a broken channel from ending the process.
  if (predecessor === undefined) process.send?.('ready', () => {})

  const restarts = new Restarts({
    settings,
    log,
    serving,
    admin,
    predecessorIsHere: () => predecessor !== undefined && process.connected,
    onSuspended: () => control.close(),
    onBack: () => control.open(),
  })
  const control = new ControlSocket(settings.dataDir, {
    restart: () => restarts.restart(),
    onFault: (cause) => log.warn({ cause }, '"countersign restart" cannot reach this process'),
  })
  control.open()
  const successor = await Promise.race([restarts.replaced, stop.asked.then(() => restarts.stop())])
  if (successor !== undefined) {
    // Otherwise systemd would believe that the service has ended.
    const told = tellSystemd('READY=1', `MAINPID=${successor.pid}`)
    await serving.handOver?.leave(successor, stop.asked)
    await told
    log.info('this process ends: a new one serves in its place')
    process.exit(0)
  }
  control.close()
  const reason = await stop.asked
  void tellSystemd('STOPPING=1')
  // Only SIGTERM implies a load balancer that needs time to notice.
  const graceMs = reason === 'SIGTERM' ? serving.settings.timeouts.drainGraceMs : 0
  await serving.drain({ reason, graceMs, hurry: stop.hurry })
  await attestation?.finish(stop.hurry)
  admin.close()
  admin.closeAllConnections()
  log.info({ reason }, 'stopped')
  process.exit(0)
}

async function start(read: StartupConfiguration, predecessor: Predecessor | undefined) {
  const { settings, log } = read
  const warnings = [
    ...fileWarnings(process.env),
    ...settingsWarnings(settings),
    ...certificateWarnings(settings),
    ...trailWarnings(settings.audit),
    ...reusePortWarnings(settings),
  ]
  for (const warning of warnings) log.warn({ warning }, 'check the configuration')
  const inheritance = await predecessor?.inherit(placesOf(settings))
  // The old process may have put edits in force that were made after this process had read the files.
  const startup = inheritance === undefined ? read : readAgain(read, process.env)
  const exit = async (error: unknown, serving?: ServingGateway): Promise<never> => {
    const { what, ...why } = startFailure(error)
    log.fatal(why, what)
    await predecessor?.faulty([why.cause])
    await serving?.abandon(what)
    process.exit(UNUSABLE)
  }
  const serveWith = async () => {
    const own = { pid: process.pid, hasTls: startup.settings.tls !== undefined }
    const sockets = inheritance?.listeners ?? socketsFromSystemd(process.env, own)
    return { serving: serve(startup, { inheritance, sockets }), adminSocket: sockets.admin }
  }
  const { serving, adminSocket } = await serveWith().catch(exit)
  process.on('SIGHUP', () => serving.trail.reopen())
  const guard = adminGuard(startup, serving)
  const { metrics, limiter, notReady: readiness, degraded: degradation } = serving
  const { config } = serving.reports
  const feed = new ConsoleFeed({ metrics, readiness, degradation, config: () => config.report(), limiter })
  const routes = [
    ...consoleRoutes(feed, guard, () => serving.settings),
    ...probeRoutes({ readiness, degradation }),
    metricsRoute(metrics),
    ...configRoutes(config, serving.reload),
  ]
  const admin = createAdminServer(guard, routes)
  const listenAll = async () => {
    const { adminHost: host, adminPort: port } = settings
    const whenTaken = 'each gateway needs an admin port of its own: GATEWAY_ADMIN_PORT'
    const adminPort = await listen(admin, { host, port, open: adminSocket, whenTaken })
    return { adminPort, ...(await serving.begin()) }
  }
  const ports = await listenAll().catch((error) => exit(error, serving))
  feed.start()
  maintainTrail(startup, serving)
  const attestation = attestTrail(startup, serving.reports.metrics)
  const { host, adminHost, upstream } = settings
  const { port, tlsPort, adminPort } = ports
  log.info({ host, port, tlsPort, adminHost, adminPort, upstreams: upstream }, 'listening')
  if (isTerminal()) process.stderr.write(startBanner(startup, ports))
  return { serving, admin, attestation }
}

/** Writes pending records, and begins segments. A thread compresses, ships and prunes closed segments. */
function maintainTrail({ settings, log }: StartupConfiguration, serving: ServingGateway): void {
  const { trail, reports } = serving
  const { file } = settings.audit
  const onFault = ({ message: cause }: Error) => log.error({ cause }, 'the audit trail cannot be rotated')
  const rotation = new Rotation({ file, trail, now: Date.now, onFault })
  const segments = new SegmentThread(trail, segmentReports(reports))
  const maintain = () => {
    trail.maintain()
    if (trail.writable) rotation.maintain(serving.settings.audit.rotation)
  }
  setInterval(maintain, TRAIL_MAINTAIN_MS).unref()
  // After a restart the other process takes care of the segments.
  const round = () => (trail.writable ? segments.round(serving.settings.audit) : undefined)
  round()
  setInterval(round, SEGMENT_ROUND_MS).unref()
}

function adminGuard({ settings, adminToken }: StartupConfiguration, serving: ServingGateway): AdminGuard {
  const { adminHost, adminNames, adminTokenFile: file } = settings
  const guard = new AdminGuard({ names: [adminHost, ...adminNames], token: adminToken?.value })
  if (file !== undefined && adminToken !== undefined) {
    const enforce = (token: string) => guard.replaceToken(token)
    serving.watch(watchAdminToken(serving.reports, file, adminToken, enforce))
  }
  return guard
}

async function readStartupConfiguration(predecessor: Predecessor | undefined): Promise<StartupConfiguration> {
  const clock = clockOffset()
  const { value: read, faults } = readConfiguration(process.env)
  if (faults !== undefined) {
    await predecessor?.faulty(faults.map(describeFault))
    const describe = isTerminal() ? showFault : describeFault
    for (const fault of faults) process.stderr.write(`${describe(fault)}\n`)
    process.exit(UNUSABLE)
  }
  const { settings } = read
  return {
    ...read,
    log: operationalLog({
      level: settings.logLevel,
      format: settings.logFormat,
      service: {
        'service.name': 'countersign',
        'service.version': read.version,
        ...settings.tracing?.resource,
      },
    }),
    clock: await clock,
    storeModule: await loadStoreModule(settings),
  }
}

/** `asked` resolves to the reason to stop: SIGTERM, SIGINT, or `parent gone`. `hurry` resolves at a second signal. */
function listenForStop(predecessor: Predecessor | undefined): {
  readonly asked: Promise<string>
  readonly hurry: Promise<void>
} {
  const asked = Promise.withResolvers<string>()
  const hurry = Promise.withResolvers<void>()
  let firstAtMs: number | undefined
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      asked.resolve(signal)
      firstAtMs ??= performance.now()
      if (performance.now() - firstAtMs >= SAME_CTRL_C_MS) hurry.resolve()
    })
  }
  if (process.send !== undefined && predecessor === undefined) {
    process.once('disconnect', () => asked.resolve('parent gone'))
    if (!process.connected) asked.resolve('parent gone')
  }
  return { asked: asked.promise, hurry: hurry.promise }
}
