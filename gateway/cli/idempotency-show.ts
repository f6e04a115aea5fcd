import { join } from 'node:path'
import { existingOnly, idempotencyKeysOf } from '../config/secret-line.ts'
import type { Settings } from '../config/settings.ts'
import { type FoundKey, findKeys } from '../idempotency/find-key.ts'
import { readIdempotencyKey } from '../idempotency/idempotency-key.ts'
import { secretsOf } from '../idempotency/key-secret.ts'
import { callerOf } from '../idempotency/key-table.ts'
import { inodeOf } from '../storage/regular-file.ts'
import { ableTo } from './audit/trail-words.ts'
import {
  CONFIG_FLAGS,
  type Command,
  CommandFault,
  EXIT,
  environmentOf,
  type Given,
  JSON_FLAG,
  print,
  printJson,
  UsageFault,
} from './command.ts'
import { readSettings } from './explain/row-reasons.ts'

export const command: Command = {
  flags: {
    key: { value: 'KEY', about: 'the key, as the client sent it' },
    caller: { value: 'ID', about: 'the caller: userId in the trail, or clientId of a machine' },
    client: { value: 'ID', about: 'clientId of the app that acted for the user' },
    config: CONFIG_FLAGS.config,
    ...JSON_FLAG,
  },
  about: [
    'Prints the outcome of the request with this idempotency key for each row of "routes". "audit find --request" then finds the first request. The command reads the data directory or the shared store, or both where "onStoreFailure" is "local". "begun" means in progress; if the gateway has ended, it means unknown.',
  ],
  examples: [
    ['countersign idempotency show --key 8e03978e-40d5 --caller user-1 --client app-1', 'one payment'],
  ],
  fault: 'no row has the key, or the configuration has faults',
  unable: 'the command line is wrong, or a file or the shared store cannot be read',
  async run({ flags }) {
    const settings = readSettings(environmentOf(flags))
    const asked = askedKeys(settings, flags)
    let count = 0
    await ableTo(async () => {
      for await (const one of shownKeys(settings, asked)) {
        count += 1
        if (flags.json !== undefined) printJson(one)
        else
          print(
            Object.entries(one)
              .flatMap(([name, value]) => (value === undefined ? [] : `${name}: ${value}`))
              .join('\n'),
          )
      }
    })
    if (count > 0) return EXIT.good
    const where = settings.store === undefined ? directoryOf(settings) : 'the shared store'
    const hint = flags.client === undefined ? '; --client names an app that acted for the user' : ''
    throw new CommandFault(`no row has this key of this caller in ${where}${hint}`)
  },
}

interface AskedKey {
  readonly row: string
  readonly caller: string
  readonly key: string
  /** True when the data directory may have it. */
  readonly isLocal: boolean
}

function askedKeys(
  { routes, store }: Settings,
  { key: written, caller, client }: Given['flags'],
): AskedKey[] {
  if (written === undefined || caller === undefined) throw new UsageFault('needs --key and --caller')
  const key = readIdempotencyKey(written, Number.POSITIVE_INFINITY)
  if (key === undefined) throw new UsageFault('--key has characters that no idempotency key has')
  // The forms of `Principal.key` and `Principal.client`.
  const callers = [callerOf(`user:${caller}`, client), callerOf(`client:${caller}`, caller)]
  const rows = new Map<string, boolean>()
  for (const { path, idempotency } of routes)
    if (idempotency !== undefined)
      rows.set(path, rows.get(path) || store === undefined || idempotency.onStoreFailure === 'local')
  if (rows.size === 0) throw new CommandFault('no row has "idempotency"')
  return [...rows].flatMap(([row, isLocal]) => callers.map((one) => ({ row, caller: one, key, isLocal })))
}

function directoryOf({ dataDir }: Settings): string {
  return join(dataDir, 'idempotency')
}

/** The data directory comes first, because the store may be away. */
async function* shownKeys(settings: Settings, asked: readonly AskedKey[]) {
  const { store } = settings
  const directory = directoryOf(settings)
  const local = asked.filter(({ isLocal }) => isLocal)
  const isThere = local.length > 0 && inodeOf(directory) !== undefined
  if (!isThere && store === undefined)
    throw new CommandFault(`no idempotency keys are kept: ${directory} is not there`)
  const secrets = secretsOf(idempotencyKeysOf(settings, existingOnly))
  if (isThere) {
    const idsOf = ({ row, caller, key }: AskedKey) =>
      secrets.map((secret) => secret.idOf(secret.callerOf(caller), row, key))
    const found = findKeys(directory, new Set(local.flatMap(idsOf)), secrets)
    for (const one of local) {
      const [key] = idsOf(one).flatMap((id) => found.get(id) ?? [])
      if (key !== undefined) yield shown(one.row, store && directory, key)
    }
  }
  if (store === undefined) return
  const { findSharedKeys } = await import('../store/shared-idempotency.ts')
  const kept = await findSharedKeys(store, secrets, asked).catch((error: Error) => {
    throw new UsageFault(`cannot ask the shared store: ${error.message}`)
  })
  for (const [at, { row }] of asked.entries()) {
    const found = kept[at]
    if (found !== undefined) yield shown(row, 'the shared store', found)
  }
}

function shown(row: string, keptIn: string | undefined, found: FoundKey) {
  const { state, sinceMs, untilMs, requestId, response } = found
  return {
    row,
    keptIn,
    state,
    since: timeOf(sinceMs),
    keptUntil: timeOf(untilMs),
    firstRequest: requestId,
    status: response?.status,
    isKept: response && response.body !== undefined,
  }
}

function timeOf(ms: number | undefined): string | undefined {
  return ms ? new Date(ms).toISOString() : undefined
}
