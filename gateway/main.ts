import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { destination, type Logger, pino } from 'pino'
import packageJson from '../package.json' with { type: 'json' }
import { createAdminServer } from './admin/server.ts'
import { assemble } from './assemble.ts'
import { configFiles } from './config/environment.ts'
import { describeFault, type Fault } from './config/faults.ts'
import { loadSettings } from './config/load.ts'
import { loadFile } from './config/load-file.ts'
import type { Settings } from './config/settings.ts'
import { drain } from './drain.ts'
import type { Gateway } from './gateway.ts'
import { parseLimits } from './limits/table.ts'
import { createListener } from './listener.ts'

/** Exit code for a configuration or an environment that cannot be served with, and for a place that cannot be had. */
const UNUSABLE = 1

await main()

/** The gateway as a process: read everything or stop, make the parts, listen, serve until a signal, drain. */
async function main(): Promise<void> {
  const ground = readGround()
  const log = operationalLog(ground.settings)
  const { gateway, background } = orExit(log, () =>
    assemble({ ...ground, log, version: packageJson.version }),
  )
  const { settings } = gateway
  let serving = false
  const readiness = () => notReady(gateway, serving)
  const admin = createAdminServer({ metrics: gateway.metrics, readiness })
  const server = createListener(gateway)
  const adminPort = await listen(log, admin, { host: settings.adminHost, port: settings.adminPort })
  const port = await listen(log, server, { host: settings.host, port: settings.port })
  serving = true
  background.keys.start()
  log.info(
    { host: settings.host, port, adminHost: settings.adminHost, adminPort, upstreams: settings.upstreams },
    'listening',
  )

  const reason = await stopRequested(gateway)
  background.reloader.stop()
  background.keys.stop()
  await drain(gateway, server, reason)
  admin.close()
  admin.closeAllConnections()
  log.info({ reason }, 'stopped')
  process.exit(0)
}

/** Settings and limit table; every fault of both is told at once. */
function readGround() {
  const settings = loadSettings(process.env)
  const limits = loadFile(configFiles(process.env).limitsFile, parseLimits)
  if (settings.value === undefined || limits.value === undefined) {
    stopForFaults([...(settings.faults ?? []), ...(limits.faults ?? [])])
  }
  return { settings: settings.value, limits: limits.value }
}

function stopForFaults(faults: readonly Fault[]): never {
  for (const fault of faults) process.stderr.write(`${describeFault(fault)}\n`)
  process.exit(UNUSABLE)
}

function operationalLog(settings: Settings): Logger {
  // Synchronous: it is little, and its last lines are the ones that are needed.
  return pino({ level: settings.logLevel, base: null }, destination({ fd: 2, sync: true }))
}

function orExit<T>(log: Logger, make: () => T): T {
  try {
    return make()
  } catch (error) {
    log.fatal({ cause: error instanceof Error ? error.message : String(error) }, 'cannot start')
    process.exit(UNUSABLE)
  }
}

/** Resolves to the port that was bound. */
async function listen(
  log: Logger,
  server: Server,
  address: { readonly host: string; readonly port: number },
): Promise<number> {
  server.listen(address.port, address.host)
  try {
    await once(server, 'listening')
  } catch (error) {
    log.fatal({ ...address, cause: error instanceof Error ? error.message : String(error) }, 'cannot listen')
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

/** Serves until SIGTERM, SIGINT or the end of the process that started this one; a second signal does not wait. */
function stopRequested(gateway: Gateway): Promise<string> {
  process.on('SIGHUP', () => gateway.trail.reopen())
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        if (gateway.load.draining) process.exit(UNUSABLE)
        resolve(signal)
      })
    }
    if (process.send !== undefined) process.once('disconnect', () => resolve('parent gone'))
  })
}
