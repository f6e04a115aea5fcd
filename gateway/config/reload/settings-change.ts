import { isDeepStrictEqual } from 'node:util'
import { NEED_RESTART } from '../json/key-names.ts'
import type { Settings } from '../settings.ts'
import { plain } from '../shown-settings.ts'

/** Settings as plain data, by key. They show only that a secret is set. */
type PlainSettings = Readonly<Record<string, unknown>>

const SECRETS: ReadonlySet<string> = new Set([
  'upstreamSecret',
  'idempotencyKeys',
  'maskKey',
  'signing.*',
  'upstreams.*.tls',
  'store',
  'tracing',
])

/** Objects of settings in which a key may need a restart. */
const GROUPS = ['audit', 'limits', 'timeouts'] as const

/** Keeps the running values of keys that need a restart. */
export function withoutRestart(running: Settings, wanted: Settings): Settings {
  const groups = GROUPS.map((key) => [key, keepWaiting<object>(running[key], wanted[key], `${key}.`)])
  // A file that was read stays watched, so its clients are known when a route accepts them again.
  const clientsFile = wanted.clientsFile ?? running.clientsFile
  return { ...keepWaiting(running, wanted), ...Object.fromEntries(groups), clientsFile }
}

/** Lists changed keys that wait for a restart. */
export function keysThatWait(running: Settings, wanted: Settings): readonly string[] {
  const differing = <T extends object>(one: T, other: T, at = '') =>
    lateKeys(one, other, at).flatMap((key) => (isSame(one[key], other[key]) ? [] : [at + key]))
  const inGroups = GROUPS.flatMap((key) => differing<object>(running[key], wanted[key], `${key}.`))
  return [...differing(running, wanted), ...inGroups]
}

function keepWaiting<T extends object>(running: T, wanted: T, at = ''): T {
  const kept = lateKeys(running, wanted, at).map((key) => [key, running[key]])
  return { ...wanted, ...Object.fromEntries(kept) }
}

/** @param at the path of their object, such as `audit.` */
function lateKeys<T extends object>(running: T, wanted: T, at: string): (keyof T & string)[] {
  const keys = Object.keys({ ...wanted, ...running }) as (keyof T & string)[]
  return keys.filter((key) => NEED_RESTART.has(at + key))
}

/** The difference between two settings, for the audit trail. */
interface SettingsChange {
  readonly keys: readonly string[]
  /** Their values. A list shows only rows that the list of the other side lacks. */
  readonly before: PlainSettings
  readonly after: PlainSettings
}

/** @returns undefined when nothing differs */
export function changeOf(before: Settings, after: Settings): SettingsChange | undefined {
  const [old, now] = [byKey(before), byKey(after)]
  const all = [...new Set([...Object.keys(old), ...Object.keys(now)])]
  const keys = all.filter((key) => !isSame(shortened(key, old[key]), shortened(key, now[key])))
  if (keys.length === 0) return undefined
  const shown = (one: PlainSettings, other: PlainSettings) =>
    Object.fromEntries(keys.map((key) => [key, shownValue(key, one[key], other[key])]))
  return { keys, before: shown(old, now), after: shown(now, old) }
}

/** Lists each key of `audit` alone, so that an edit of one does not show the others. */
function byKey({ audit, upstreamTls, signingKeys, ...settings }: Settings): PlainSettings {
  const ofAudit = Object.entries(audit).map(([key, value]) => [`audit.${key}`, value])
  const secrets = { 'upstreams.*.tls': upstreamTls, 'signing.*': signingKeys }
  return { ...settings, ...secrets, ...Object.fromEntries(ofAudit) }
}

function shortened(key: string, value: unknown): unknown {
  if (key !== 'openapi' || value === undefined) return value
  const { file, hash, document } = value as NonNullable<Settings['openapi']>
  return { file, hash, validated: document !== undefined }
}

/** Compares what JSON shows, because Node takes any two lists of networks for equal. */
function isSame(one: unknown, other: unknown): boolean {
  return isDeepStrictEqual(plain(one), plain(other))
}

function shownValue(key: string, value: unknown, other: unknown): unknown {
  if (SECRETS.has(key)) return value === undefined ? null : '(secret)'
  return withoutEqualRows(plain(shortened(key, value)) ?? null, plain(shortened(key, other)))
}

/** Leaves out equal rows, because tables can have thousands that did not change. */
function withoutEqualRows(value: unknown, other: unknown): unknown {
  if (!Array.isArray(value) || !Array.isArray(other)) return value
  const known = new Set(other.map((row) => JSON.stringify(row)))
  const rows = value.filter((row) => !known.has(JSON.stringify(row)))
  // The lists have the same rows in another order, so all rows are shown.
  return rows.length === 0 && value.length === other.length ? value : rows
}
