import { join } from 'node:path'
import { EXISTING, idempotencyKeysOf } from '../config/secret-line.ts'
import type { Settings } from '../config/settings.ts'
import { findKey } from '../idempotency/find-key.ts'
import { readIdempotencyKey } from '../idempotency/idempotency-key.ts'
import { secretsOf } from '../idempotency/key-secret.ts'
import { callerOf } from '../idempotency/key-table.ts'
import { inodeOf } from '../storage/regular-file.ts'
import { ableTo, UNABLE } from './audit/trail-words.ts'
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
    key: { value: 'KEY', about: 'as the client sent it' },
    caller: { value: 'ID', about: 'userId of the audit trail, or the clientId of a machine' },
    client: { value: 'ID', about: 'clientId of the app that acted for the user' },
    config: CONFIG_FLAGS.config,
    ...JSON_FLAG,
  },
  about: [
    'Prints, for each row, what became of the requests of a caller with an idempotency key. "audit find --request" finds the first one. It reads the data directory, beside a running gateway too: "begun" is in progress there, and otherwise unknown.',
  ],
  examples: [
    ['countersign idempotency show --key 8e03978e-40d5 --caller user-1 --client app-1', 'one payment'],
  ],
  fault: 'no row has the key, or the configuration has faults',
  unable: UNABLE,
  async run({ flags }) {
    const settings = readSettings(environmentOf(flags))
    const found = await ableTo(() => [...shownKeys(settings, flags)])
    if (found.length === 0) {
      const where =
        settings.store &&
        ' in the data directory; the shared store is not read: "audit find" has the requests of the caller'
      throw new CommandFault(`no row has this key of this caller${where ?? ''}`)
    }
    for (const one of found) {
      if (flags.json !== undefined) printJson(one)
      else
        print(
          Object.entries(one)
            .flatMap(([name, value]) => (value === undefined ? [] : `${name}: ${value}`))
            .join('\n'),
        )
    }
    return EXIT.good
  },
}

function* shownKeys(settings: Settings, { key: written, caller, client }: Given['flags']) {
  const directory = join(settings.dataDir, 'idempotency')
  if (written === undefined || caller === undefined) throw new UsageFault('needs --key and --caller')
  if (inodeOf(directory) === undefined) {
    if (settings.store !== undefined) return
    throw new CommandFault(`no idempotency keys are kept: ${directory} is not there`)
  }
  const secrets = secretsOf(idempotencyKeysOf(settings, EXISTING))
  // As in `Principal.key` and `Principal.client`.
  const callers = [callerOf(`user:${caller}`, client), callerOf(`client:${caller}`, caller)]
  for (const { path, idempotency } of settings.routes) {
    const key = idempotency && readIdempotencyKey(written, idempotency.maxKeyLength)
    if (key === undefined) continue
    for (const one of callers) {
      const ids = secrets.map((secret) => secret.idOf(secret.callerOf(one), path, key))
      const found = findKey(directory, ids, secrets)
      if (found === undefined) continue
      const { state, sinceMs, untilMs, requestId, response } = found
      yield {
        row: path,
        state,
        since: timeOf(sinceMs),
        keptUntil: timeOf(untilMs),
        firstRequest: requestId,
        status: response?.status,
        isKept: response && response.body !== undefined,
      }
    }
  }
}

function timeOf(ms: number | undefined): string | undefined {
  return ms ? new Date(ms).toISOString() : undefined
}
