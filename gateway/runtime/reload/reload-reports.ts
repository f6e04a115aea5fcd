import { readFileSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import type { ConfigInForce, ConfigPart } from '../../admin/config-in-force.ts'
import { configChangeRecords, type FileWriter } from '../../audit/config-change-records.ts'
import { describeFault } from '../../config/faults.ts'
import { type Accepted, DOUBTFUL_LOOKS, type Reload } from '../../config/reload/reloader.ts'
import type { Settings } from '../../config/settings.ts'
import type { Gateway } from '../../gateway.ts'

export interface Watching {
  /** Some faults are reported only after `DOUBTFUL_LOOKS` calls. */
  check(): unknown
  stop(): void
}

const MOST_FAULTS = 3

export async function checkNow(watching: readonly Watching[]): Promise<void> {
  for (let look = 0; look < DOUBTFUL_LOOKS; look++) for (const each of watching) await each.check()
}

export interface Reports extends Pick<Gateway, 'log' | 'metrics' | 'trail' | 'clock'> {
  readonly config: ConfigInForce
}

interface Edited {
  readonly file: string
  /** Set where several files are read together. */
  readonly files?: readonly string[]
  readonly label: string
  readonly what: ConfigPart
}

interface Edit {
  /** Rows in the form that the audit trail gets. */
  readonly before: readonly object[]
  readonly after: readonly object[]
  readonly settings?: {
    readonly inForce: Settings
    readonly keys: readonly string[]
    readonly needsRestart: readonly string[]
  }
}

const TAKEN: ReadonlySet<string> = new Set(['tls', 'ocsp', 'admin-token'])

/** Names a file in metrics, by its whole path if another label has the same name. */
export function labelOf(
  file: string,
  { configFile, limitsFile, clientsFile }: Pick<Settings, 'configFile' | 'limitsFile' | 'clientsFile'>,
): string {
  const name = basename(file)
  const files = [configFile, limitsFile, clientsFile]
  const isAmbiguous = files.some((other) => other !== undefined && other !== file && basename(other) === name)
  return isAmbiguous || TAKEN.has(name) ? file : name
}

export function reporter<T>(
  reports: Reports,
  { file, files, label, what }: Edited,
  editOf: (reload: Accepted<T>) => Edit,
): (reload: Reload<T>) => void {
  const { log, metrics, trail, clock, config } = reports
  const name = what === 'gateway' ? 'settings' : what
  metrics.configReload(label, 'success')
  return (reload) => {
    metrics.configReload(label, reload.result)
    if (reload.result === 'failure') {
      const { faults } = reload
      config.failed(what, faults)
      metrics.causes.set(
        `gateway_config_last_reload_successful ${label}`,
        faults.map(describeFault).slice(0, MOST_FAULTS).join('; '),
      )
      log.error({ file, faults: faults.map(describeFault) }, `the last good ${name} stay in force`)
      return
    }
    const { changed } = reload
    const { before, after, settings } = editOf(reload)
    if (settings === undefined) config.replaced(what, after, changed)
    else config.replacedSettings(settings.inForce, { changed, needsRestart: settings.needsRestart })
    if (changed) {
      const timestamp = new Date(clock()).toISOString()
      const records = configChangeRecords({ timestamp, file, writer: writerOf(file), before, after })
      for (const record of records) trail.settle(record)
    }
    const shown = settings === undefined ? { rows: after.length } : { keys: settings.keys }
    log.info({ file, files, ...shown, changed }, `${name} are in force`)
  }
}

/** The owner of a file, who is not always its last writer. Undefined when the file has gone. */
export function writerOf(file: string, accounts = '/etc/passwd'): FileWriter | undefined {
  try {
    const { uid, mtime } = statSync(file)
    return { owner: { uid, name: accountName(uid, accounts) }, modified: mtime.toISOString() }
  } catch {
    return undefined
  }
}

/** Undefined when the list of accounts lacks `uid` or cannot be read. */
function accountName(uid: number, accounts: string): string | undefined {
  try {
    const lines = readFileSync(accounts, 'utf8').split('\n')
    return lines.map((line) => line.split(':')).find(([, , id]) => id === String(uid))?.[0]
  } catch {
    return undefined
  }
}
