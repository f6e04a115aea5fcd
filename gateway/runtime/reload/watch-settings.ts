import { type ClientTable, parseClients } from '../../config/clients/clients-file.ts'
import { NAMES } from '../../config/environment.ts'
import type { Fault } from '../../config/faults.ts'
import { type LoadedFile, loadFile } from '../../config/load-file.ts'
import { oneFile, Reloader } from '../../config/reload/reloader.ts'
import type { EditedSettings, SettingsTexts } from '../../config/reload/reread-settings.ts'
import { changeOf } from '../../config/reload/settings-change.ts'
import { parseAdminToken } from '../../config/secret-line.ts'
import type { Settings } from '../../config/settings.ts'
import { clientIssuerFaults } from '../../tls/clients/client-issuers.ts'
import { loadTls } from '../../tls/listener/tls-reload.ts'
import { certificateWarnings, settingsWarnings } from '../config-warnings.ts'
import { sealKeyFaults } from '../seal-trail.ts'
import { rereadApart } from './parse-apart.ts'
import { labelOf, type Reports, reporter, type Watching } from './reload-reports.ts'

interface SettingsWatch {
  readonly settings: Settings
  readonly texts: SettingsTexts
  /** Finds where edited settings do not fit the limits or clients. */
  faultsOf(edited: EditedSettings): readonly Fault[]
  /** @param clients set when their file is read for the first time */
  enforce(settings: Settings, clients: LoadedFile<ClientTable> | undefined): void
  readonly reread?: typeof rereadApart
}

export function watchSettings(reports: Reports, watch: SettingsWatch): Watching {
  const { reread: read = rereadApart } = watch
  const { configFile: file } = watch.settings
  const edited = { file, label: labelOf(file, watch.settings), what: 'gateway' } as const
  let running = watch.settings
  let { texts } = watch
  const parse = async (_: string, text: string) => {
    const reread = await read({ env: process.env, running, text })
    if (reread.texts !== undefined) {
      reloader.follow(reread.texts)
      const areWhole = areSurelyWhole(reread.texts, texts)
      texts = reread.texts
      if (!areWhole) return undefined
    }
    const { value } = reread.parsed
    if (value === undefined) return reread.parsed
    const faults = [...nextStartFaults(value), ...watch.faultsOf(value)]
    return faults.length > 0 ? { faults } : reread.parsed
  }
  const value: EditedSettings = { settings: running, clients: undefined, needsRestart: [], wanted: running }
  const reloader = new Reloader<EditedSettings>({
    ...oneFile(file, { text: watch.texts.get(file) ?? '', value }, parse),
    isSame: (before, after) => changeOf(before.settings, after.settings) === undefined,
    swap: ({ settings, clients }) => {
      watch.enforce(settings, clients)
      running = settings
    },
    onReload: reporter<EditedSettings>(reports, edited, ({ before, after }) => {
      const { settings, needsRestart } = after
      const change = changeOf(before.settings, settings)
      warn(reports, file, after)
      return {
        before: [change?.before ?? {}],
        after: [change?.after ?? {}],
        settings: { inForce: settings, keys: change?.keys ?? [], needsRestart },
      }
    }),
  })
  reloader.follow(watch.texts)
  return reloader
}

/** True when no text can be half written: each is as before, or a JSON object, which is valid only when whole. */
function areSurelyWhole(texts: SettingsTexts, before: SettingsTexts): boolean {
  return [...texts].every(
    ([file, text]) => text === undefined || /^\s*\{/.test(text) || text === before.get(file),
  )
}

function warn({ log }: Reports, file: string, { settings, needsRestart }: EditedSettings): void {
  if (needsRestart.length > 0) {
    log.warn({ file, keys: needsRestart }, 'an edit comes into force after a restart')
  }
  for (const warning of [...settingsWarnings(settings), ...certificateWarnings(settings)])
    log.warn({ file, warning }, 'check the configuration')
}

/** Faults in files that only the next start reads. Files in force have their own watches. */
function nextStartFaults({ needsRestart, wanted }: Pick<EditedSettings, 'needsRestart' | 'wanted'>): Fault[] {
  const waits = (key: string) => needsRestart.includes(key)
  const faults: Fault[] = []
  if (waits('tls')) faults.push(...tlsFaults(wanted))
  if (waits('adminTokenFile') && wanted.adminTokenFile !== undefined)
    faults.push(
      ...(loadFile(wanted.adminTokenFile, parseAdminToken, { namedBy: NAMES.adminTokenFile }).faults ?? []),
    )
  if (needsRestart.some((key) => key.startsWith('audit.'))) faults.push(...sealKeyFaults(wanted.audit))
  return faults
}

function tlsFaults({ tls, clientsFile }: Settings): readonly Fault[] {
  const { value: loaded, faults } = tls === undefined ? {} : loadTls(tls, Date.now())
  if (faults !== undefined) return faults
  const clients = clientsFile === undefined ? undefined : loadFile(clientsFile, parseClients).value
  if (clientsFile === undefined || clients === undefined) return []
  return clientIssuerFaults(clientsFile, clients.value, loaded?.material.trust)
}
