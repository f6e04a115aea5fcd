import schema from '../../../config/schemas/gateway.schema.json' with { type: 'json' }
import type { Schema } from './schema-check.ts'

/** A key of gateway.json that a variable of the environment overrides. */
export interface OverriddenKey {
  /** Path of the key, such as `tls.port`. */
  readonly path: string
  readonly schema: Schema
}

interface Declared extends Schema {
  readonly environment?: string
  readonly properties?: Readonly<Record<string, Declared>>
}

/** Settings that have another name in gateway.json; those of `audit` begin with it in both. */
const NAMES_IN_FILE: Readonly<Record<string, string>> = {
  upstreams: 'upstream',
  upstreamGroups: 'upstreams',
  upstreamTls: 'upstreams.*.tls',
  onJournalFailure: 'limits.onJournalFailure',
  drainGraceMs: 'timeouts.drainGraceMs',
}

/** Keys that a variable overrides, by the name of the variable. */
export const OVERRIDDEN_KEYS: ReadonlyMap<string, OverriddenKey> = new Map(overriddenBelow('', schema))

const VARIABLES = new Map([...OVERRIDDEN_KEYS].map(([name, { path }]) => [path, name]))

function overriddenBelow(at: string, { properties = {} }: Declared): (readonly [string, OverriddenKey])[] {
  return Object.entries(properties).flatMap(([key, part]) => {
    const path = `${at}${key}`
    const below = overriddenBelow(`${path}.`, part)
    return part.environment === undefined ? below : [[part.environment, { path, schema: part }], ...below]
  })
}

/** What gateway.json calls a setting: `audit.file` for `auditFile`. */
export function nameInFile(setting: string): string {
  const path = setting.replace(/^audit([A-Z])/, (_, first: string) => `audit.${first.toLowerCase()}`)
  return NAMES_IN_FILE[setting] ?? path
}

/** The variable that overrides a key of gateway.json. @throws Error when there is none */
export function variableOf(path: string): string {
  const name = VARIABLES.get(path)
  if (name === undefined) throw new Error(`no variable overrides ${path}`)
  return name
}
