import { type ClientTable, parseClients } from '../clients/clients-file.ts'
import { type Environment, NAMES } from '../environment.ts'
import type { Parsed } from '../faults.ts'
import { type LoadedFile, loadFile, readText } from '../load-file.ts'
import { conflictsInForce, loadSettings } from '../load-settings.ts'
import { lapses } from '../rules/certificate-times.ts'
import type { Settings } from '../settings.ts'
import { upstreamCertificates } from '../upstreams/upstream-tls-files.ts'
import { keysThatWait, withoutRestart } from './settings-change.ts'

/** An edit of config/gateway.json, for a running gateway. Plain data. */
export interface EditedSettings {
  /** To be put in force. */
  readonly settings: Settings
  /** Set when machine clients are accepted for the first time. */
  readonly clients: LoadedFile<ClientTable> | undefined
  /** Keys that wait for a restart. */
  readonly needsRestart: readonly string[]
  /** The settings of the next start. */
  readonly wanted: Settings
}

export interface Reread {
  readonly parsed: Parsed<EditedSettings>
  /** Undefined: the reading broke off, so it is not known which files were read. */
  readonly texts: SettingsTexts | undefined
}

/** The files that settings were read from, with their texts; undefined: the file could not be read. */
export type SettingsTexts = ReadonlyMap<string, string | undefined>

export function readSettings(env: Environment): {
  readonly parsed: Parsed<Settings>
  readonly texts: SettingsTexts
} {
  const texts = new Map<string, string | undefined>()
  return { parsed: loadSettings(env, (file) => readInto(texts, file)), texts }
}

function readInto(texts: Map<string, string | undefined>, file: string): string {
  texts.set(file, undefined)
  const text = readText(file)
  texts.set(file, text)
  return text
}

export interface RereadOptions {
  readonly env: Environment
  /** The settings in force, as read from the files. */
  readonly running: Settings
  /** Text of gateway.json. */
  readonly text: string
}

/**
 * Keys that wait for a restart must be valid too, or the next start would fail. An expired certificate of an upstream
 * does not replace a valid one.
 */
export function rereadSettings({ env, running, text }: RereadOptions): Reread {
  const texts = new Map<string, string | undefined>([[running.configFile, text]])
  const read = (file: string) => (file === running.configFile ? text : readInto(texts, file))
  const { value: wanted, faults } = loadSettings(env, read)
  if (faults !== undefined) return { parsed: { faults }, texts }
  const settings = withoutRestart(running, wanted)
  const later = keysThatWait(running, wanted)
  const conflicts = later.length === 0 ? [] : conflictsInForce(settings)
  if (conflicts.length > 0) return { parsed: { faults: conflicts }, texts }
  const late = lapses(upstreamCertificates(settings), upstreamCertificates(running), Date.now())
  if (late.length > 0) return { parsed: { faults: late }, texts }
  const isFirst = settings.clientsFile !== undefined && running.clientsFile === undefined
  const { value: clients, faults: bad } = isFirst
    ? loadFile(settings.clientsFile, parseClients, { namedBy: NAMES.clientsFile })
    : {}
  if (bad !== undefined) return { parsed: { faults: bad }, texts }
  return { parsed: { value: { settings, clients, needsRestart: later, wanted } }, texts }
}
