import { buildApp } from './app.ts'
import { migrate } from './database/migrations.ts'
import { openDatabase } from './database/open-database.ts'
import { DirectoryInUseError } from './database/pglite.ts'
import { endExposure, isExposed } from './database/private-directory.ts'
import { seedDemoUsers } from './demo-users.ts'
import { type Environment, readEnvironment } from './environment.ts'
import { readGatewaySecret } from './gateway-secret.ts'
import { DAY_MS, earlierTime, sweep } from './housekeeping.ts'
import {
  ASKED_EVERY_MS,
  isRotationAsked,
  type KeyUpkeep,
  keepKeys,
  LOOK_EVERY_MS,
} from './identity/key-rotation.ts'
import { loadSigningKeys } from './identity/keys.ts'
import { loadClients, removePortalKey } from './identity/oauth/clients.ts'
import { loadServerSecrets } from './identity/secrets.ts'
import { backendLog } from './process/backend-log.ts'
import { shutDown } from './process/shut-down.ts'
import { mayPass, whenAvailable } from './process/when-available.ts'

const SWEEP_EVERY_MS = 60 * 60 * 1000

process.umask(0o077)
const logger = backendLog()
const clock = () => new Date()

const environment = readEnvironment(process.env)
if ('faults' in environment) {
  for (const fault of environment.faults) logger.fatal(fault)
  process.exit(1)
}
const stop = listenForStop()
await start(environment).catch((fault: unknown) => {
  if (stop.aborted && mayPass(fault)) {
    logger.info('stopped')
    process.exit(0)
  }
  logger.fatal({ err: fault }, startFault(fault))
  process.exit(1)
})

async function start(settings: Environment): Promise<void> {
  // This comes before the wait for the database, so that a faulty file is reported at once.
  const gatewaySecret = settings.gatewaySecretFile && (await readGatewaySecret(settings.gatewaySecretFile))
  if (settings.databaseUrl === undefined) keepPrivate(settings.dataDirectory)
  const { upkeep, ...prepared } = await whenAvailable(() => prepare(settings), {
    onWait: ({ message: cause }, retryMs) => logger.warn({ cause, retryMs }, 'waiting for the database'),
    signal: stop,
  })
  const { database } = prepared
  const listening = async () => {
    const app = await buildApp({ ...settings, ...prepared, gatewaySecret, clock }, logger)
    const { host, port } = settings
    await app.listen({ host, port, listenTextResolver: (address) => `listening at ${address}` })
    return app
  }
  const app = await listening().catch(async (fault: unknown) => {
    await database.close()
    throw fault
  })
  const timers = startUpkeep(upkeep, settings.webhookRetentionDays * DAY_MS)
  const end = async () => {
    for (const timer of timers) clearInterval(timer)
    process.exit(await shutDown({ app, database }, logger))
  }
  if (stop.aborted) void end()
  else stop.addEventListener('abort', () => void end())
  // A parent waits for this. The callback keeps a broken channel from ending this process.
  process.send?.('ready', () => {})
}

/** Opens the database and brings it up to date. May be called again after a failure. */
async function prepare(settings: Environment) {
  const { dataDirectory, demo, keyRotationDays, oauthClientsFile: file } = settings
  const database = await openDatabase(settings, (fault) =>
    logger.error({ err: fault }, 'an idle database connection broke'),
  )
  try {
    const applied = await migrate(database)
    if (applied.length > 0) logger.info({ applied }, 'the schema of the database was migrated')
    if (demo) await seedDemoUsers(database, clock())
    const keys = await loadSigningKeys(database, clock)
    const upkeep = { database, keys, clock, logger, dataDirectory, rotateAfterMs: keyRotationDays * DAY_MS }
    if (isExposed(dataDirectory)) {
      // Clients then need new nonces and cookies. The demo client needs its new key.
      await database.query('DELETE FROM server_secrets')
      await removePortalKey(dataDirectory)
      await keepKeys(upkeep)
    }
    const secrets = await loadServerSecrets(database)
    const clients = await loadClients({ file, demo, dataDirectory, database })
    return { database, keys, upkeep, secrets, clients }
  } catch (fault) {
    await database.close()
    throw fault
  }
}

/** Ends other local users' access to the embedded database, and warns when they had access. */
function keepPrivate(directory: string): void {
  const isStillOpen = endExposure(directory)
  if (isStillOpen)
    logger.warn({ directory }, 'others can read the database, and their rights cannot be taken away')
  if (!isExposed(directory)) return
  logger.warn({ directory }, 'others could read the database until now: its keys and secrets are replaced')
}

/** Starts the timers. After a fault the next turn tries again. */
function startUpkeep(upkeep: KeyUpkeep, webhooksKeptMs: number): NodeJS.Timeout[] {
  const { database, dataDirectory } = upkeep
  const logged = (what: string, work: () => Promise<unknown>) => () => {
    work().catch((fault: unknown) => {
      // A stop closes the database while the work runs.
      if (!stop.aborted) logger.error({ err: fault }, `${what} failed`)
    })
  }
  const sweepOnce = logged('the removal of old data', async () =>
    sweep(database, await earlierTime(database, clock()), webhooksKeptMs),
  )
  const keepOnce = logged('the upkeep of the signing keys', () => keepKeys(upkeep))
  const rotateIfAsked = logged('a rotation of the signing keys', async () => {
    if (isRotationAsked(dataDirectory)) await keepKeys(upkeep)
  })
  sweepOnce()
  return [
    setInterval(sweepOnce, SWEEP_EVERY_MS),
    setInterval(keepOnce, LOOK_EVERY_MS),
    setInterval(rotateIfAsked, ASKED_EVERY_MS),
  ]
}

/** The signal aborts on SIGTERM, SIGINT or the end of the parent process, even during the wait for the database. */
function listenForStop(): AbortSignal {
  const abort = new AbortController()
  const ask = (reason: string) => {
    if (abort.signal.aborted) return
    logger.info({ reason }, 'stopping')
    abort.abort()
  }
  process.on('SIGTERM', ask)
  process.on('SIGINT', ask)
  if (process.send !== undefined) {
    process.on('disconnect', () => ask('parent disconnected'))
    if (!process.connected) ask('parent disconnected')
  }
  return abort.signal
}

function startFault(fault: unknown): string {
  if (fault instanceof DirectoryInUseError) return fault.message
  if (!(fault instanceof Error)) return 'cannot start'
  const code = (fault as NodeJS.ErrnoException).code
  if (code === 'EADDRINUSE') return `cannot start: another program already listens there (${fault.message})`
  return `cannot start: ${fault.message}`
}
