import { once } from 'node:events'
import type { Server } from 'node:http'
import type { Server as SecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { destination, type Logger, pino } from 'pino'
import packageJson from '../package.json' with { type: 'json' }
import { createAdminServer } from './admin/server.ts'
import { assemble } from './assemble.ts'
import { parseClients } from './config/clients-file.ts'
import { configFiles } from './config/environment.ts'
import { describeFault, type Fault } from './config/faults.ts'
import { loadSettings } from './config/load.ts'
import { loadFile } from './config/load-file.ts'
import type { Settings, TlsSettings } from './config/settings.ts'
import { closeParts, drain } from './drain.ts'
import type { Gateway } from './gateway.ts'
import { parseLimits } from './limits/table.ts'
import { createListener, createSecureListener } from './listener.ts'
import { type Watching, watchTls } from './reloads.ts'
import { type LoadedTls, loadTls } from './tls/reload.ts'

/** Exit code for a configuration or an environment that cannot be served with, and for a place that cannot be had. */
const UNUSABLE = 1
/** Under npm one Ctrl-C comes twice: from the terminal, and passed on by npm. */
const SAME_CTRL_C_MS = 1000
const NOTHING = { value: undefined, faults: undefined }
/** How often a trail that cannot be written is tried again without traffic. */
const TRAIL_RECHECK_MS = 1000

await main()

/** The gateway as a process: read everything or stop, make the parts, listen, serve until it is told to stop, drain. */
async function main(): Promise<void> {
  const stop = listenForStop()
  const ground = readGround()
  const log = operationalLog(ground.settings)
  const { gateway, background } = orExit(log, () =>
    assemble({ ...ground, log, version: packageJson.version }),
  )
  const { settings, trail, metrics } = gateway
  process.on('SIGHUP', () => trail.reopen())
  let serving = false
  const admin = createAdminServer({ metrics, readiness: () => notReady(gateway, serving) })
  const listeners: (Server | SecureServer)[] = [createListener(gateway)]
  const adminPort = await listen(gateway, admin, { host: settings.adminHost, port: settings.adminPort })
  const port = await listen(gateway, listeners[0] as Server, { host: settings.host, port: settings.port })
  const secured =
    settings.tls &&
    ground.tls &&
    (await listenSecurely(gateway, { settings: settings.tls, loaded: ground.tls }))
  if (secured !== undefined) listeners.push(secured.listener)
  serving = true
  // Whoever takes no bearer tokens needs no keys, and may have nobody to ask for them.
  if (settings.routes.some((route) => route.auth.has('bearer'))) background.keys.start()
  // A trail whose disk has room again takes up what it owes without waiting for a request.
  setInterval(() => trail.recheck(), TRAIL_RECHECK_MS).unref()
  log.info(
    {
      host: settings.host,
      port,
      tlsPort: secured?.port,
      adminHost: settings.adminHost,
      adminPort,
      upstreams: settings.upstreams,
    },
    'listening',
  )
  // Whoever started this process over a channel starts it again only if it has got this far.
  process.send?.('ready')

  const reason = await stop.asked
  for (const watching of [...background.watching, ...(secured ? [secured.watching] : [])]) watching.stop()
  background.keys.stop()
  await drain(gateway, listeners, { reason, hurry: stop.hurry })
  admin.close()
  admin.closeAllConnections()
  log.info({ reason }, 'stopped')
  process.exit(0)
}

/** Everything that is read before anything is made; every fault of all of it is told at once. */
function readGround() {
  const settings = loadSettings(process.env)
  const { clientsFile, tls: tlsSettings } = settings.value ?? {}
  const limits = loadFile(configFiles(process.env).limitsFile, parseLimits)
  const clients = clientsFile === undefined ? NOTHING : loadFile(clientsFile, parseClients)
  const tls = tlsSettings === undefined ? NOTHING : loadTls(tlsSettings, Date.now())
  const faults = [settings, limits, clients, tls].flatMap((read) => read.faults ?? [])
  if (faults.length > 0 || settings.value === undefined || limits.value === undefined) stopForFaults(faults)
  return { settings: settings.value, limits: limits.value, clients: clients.value, tls: tls.value }
}

function stopForFaults(faults: readonly Fault[]): never {
  for (const fault of faults) process.stderr.write(`${describeFault(fault)}\n`)
  process.exit(UNUSABLE)
}

function operationalLog(settings: Settings): Logger {
  // Synchronous: it is little, and its last lines are the ones that are needed.
  const stderr = destination({ fd: 2, sync: true })
  // A terminal that was closed takes no more lines; that is no reason to serve no more requests.
  stderr.on('error', () => {})
  return pino({ level: settings.logLevel, base: null }, stderr)
}

function orExit<T>(log: Logger, make: () => T): T {
  try {
    return make()
  } catch (error) {
    log.fatal({ cause: error instanceof Error ? error.message : String(error) }, 'cannot start')
    process.exit(UNUSABLE)
  }
}

interface Securing {
  readonly settings: TlsSettings
  readonly loaded: LoadedTls
}

interface Secured {
  readonly listener: SecureServer
  readonly port: number
  readonly watching: Watching
}

async function listenSecurely(gateway: Gateway, { settings, loaded }: Securing): Promise<Secured> {
  const { material } = loaded
  for (const warning of material.warnings) gateway.log.warn({ warning }, 'tls')
  const listener = createSecureListener(gateway, material)
  const port = await listen(gateway, listener, { host: gateway.settings.host, port: settings.port })
  const setSecureContext = listener.setSecureContext.bind(listener)
  return { listener, port, watching: watchTls(gateway, { settings, loaded, setSecureContext }) }
}

/** Resolves to the port that was bound. */
async function listen(
  gateway: Gateway,
  server: Server | SecureServer,
  address: { readonly host: string; readonly port: number },
): Promise<number> {
  server.listen(address.port, address.host)
  try {
    await once(server, 'listening')
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error)
    gateway.log.fatal({ ...address, cause }, 'cannot listen')
    await closeParts(gateway, 'cannot listen')
    process.exit(UNUSABLE)
  }
  return (server.address() as AddressInfo).port
}

/** Why no traffic should come, in words for the probe; undefined when it should. */
function notReady(gateway: Gateway, serving: boolean): string | undefined {
  if (!serving) return 'starting'
  if (gateway.load.draining) return 'draining'
  return gateway.trail.recheck() ? undefined : 'the audit trail cannot be written'
}

/**
 * Hears from the first moment on. `asked`: SIGTERM, SIGINT, or the end of the process that started this one; resolves
 * to which. `hurry`: another signal.
 */
function listenForStop(): { readonly asked: Promise<string>; readonly hurry: Promise<void> } {
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
  if (process.send !== undefined) process.once('disconnect', () => asked.resolve('parent gone'))
  return { asked: asked.promise, hurry: hurry.promise }
}
