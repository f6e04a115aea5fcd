import { setTimeout as pause } from 'node:timers/promises'
import { migrate } from '../database/migrations.ts'
import { openDatabase } from '../database/open-database.ts'
import { DirectoryInUseError } from '../database/pglite.ts'
import { type Environment, readEnvironment } from '../environment.ts'
import { askForRotation, isRotationAsked, rotateSigningKeys, rotationText } from './key-rotation.ts'

const WAIT_MS = 60_000
const ASK_EVERY_MS = 200

/**
 * `npm run keys:rotate` rotates the signing keys of the backend's database. The exit status is 0, also when a rotation
 * is under way; after a fault it is 1, with a line on standard error.
 */
process.umask(0o077)
const environment = readEnvironment(process.env)
if ('faults' in environment) fail(environment.faults.join('\n'))
else await rotate(environment).catch((fault: Error) => fail(fault.message || String(fault)))

async function rotate(settings: Environment): Promise<void> {
  const database = await openDatabase(settings, () => {}).catch((fault: unknown) => {
    // The running backend has the embedded database open.
    if (fault instanceof DirectoryInUseError) return undefined
    throw fault
  })
  if (database === undefined) return askBackend(settings.dataDirectory)
  try {
    await migrate(database)
    say(rotationText(await rotateSigningKeys(database, { now: new Date() })))
  } finally {
    await database.close()
  }
}

async function askBackend(dataDirectory: string): Promise<void> {
  askForRotation(dataDirectory)
  say('the running backend was asked')
  for (let waitedMs = 0; isRotationAsked(dataDirectory); waitedMs += ASK_EVERY_MS) {
    if (waitedMs >= WAIT_MS) throw new Error('the backend has not taken the request up; see its log')
    await pause(ASK_EVERY_MS)
  }
  say('the backend has taken it up; its log names the key')
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

function fail(line: string): void {
  process.stderr.write(`${line}\n`)
  process.exitCode = 1
}
