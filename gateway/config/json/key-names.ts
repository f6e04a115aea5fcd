import schema from '../../../config/schemas/gateway.schema.json' with { type: 'json' }
import type { Schema } from './schema-check.ts'

interface Declared extends Schema {
  readonly environment?: string
  readonly restart?: boolean
  readonly properties?: Readonly<Record<string, Declared>>
}

interface Key {
  /** Such as `tls.port`. */
  readonly path: string
  readonly schema: Declared
}

const KEYS = keysBelow('', schema)

/** By the name of the variable that overrides the key. */
export const OVERRIDDEN_KEYS: ReadonlyMap<string, Key> = new Map(
  KEYS.flatMap((key) => (key.schema.environment === undefined ? [] : [[key.schema.environment, key]])),
)
/** Settings whose edits wait for a restart: paths such as `audit.file`, and names that gateway.json does not have. */
export const NEED_RESTART: ReadonlySet<string> = new Set([
  ...KEYS.flatMap(({ path, schema: { restart } }) => (restart ? [path] : [])),
  ...['memoryProfile', 'reusePort', 'store', 'limitsFile', 'configFile', 'audit.sealKey'],
])

function keysBelow(at: string, { properties = {} }: Declared): Key[] {
  return Object.entries(properties).flatMap(([key, part]) => {
    const path = `${at}${key}`
    return [{ path, schema: part }, ...keysBelow(`${path}.`, part)]
  })
}

/** @throws Error when no variable overrides the key */
export function variableOf(path: string): string {
  const name = KEYS.find((key) => key.path === path)?.schema.environment
  if (name === undefined) throw new Error(`no variable overrides ${path}`)
  return name
}
