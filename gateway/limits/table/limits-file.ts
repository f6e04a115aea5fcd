import schema from '../../../config/schemas/limits.schema.json' with { type: 'json' }
import type { Parsed } from '../../config/faults.ts'
import { JsonFile } from '../../config/json/json-file.ts'
import { schemaCheck } from '../../config/json/schema-check.ts'
import type { Written } from '../../config/keys/key-types.ts'
import type { LIMITS_FILE } from '../../config/keys/limits-keys.ts'
import { methodSet } from '../../config/rules/method-rules.ts'
import { checkRows } from '../../config/rules/row-rules.ts'
import { windowToMs } from '../../config/rules/window-rule.ts'
import type { LimitRow } from './limit-table.ts'

type WrittenLimits = Written<typeof LIMITS_FILE>
type WrittenRow = WrittenLimits['limits'][number]

const MAX_WINDOW = '366d'
const MAX_WINDOW_MS = windowToMs(MAX_WINDOW)
const NAME = new RegExp(schema.properties.limits.items.properties.name.pattern, 'u')

const checkSchema = schemaCheck(schema)

/** The rows in the order of the file. */
export function parseLimits(file: string, text: string): Parsed<readonly LimitRow[]> {
  const json = new JsonFile<WrittenLimits>(file, text, checkSchema)
  const rows = json.value?.limits
  if (!Array.isArray(rows)) return { faults: json.faults() }
  const sound = checkRows(json, '$.limits', rows)
  checkWindows(json, rows)
  checkNames(json, rows, sound)
  const faults = json.faults()
  return faults.length > 0 ? { faults } : { value: rows.map(limitRow) }
}

function limitRow(row: WrittenRow): LimitRow {
  return {
    name: nameOf(row),
    path: row.path,
    methods: methodSet(row.methods),
    limit: row.limit,
    window: row.window,
    windowMs: windowToMs(row.window),
    purpose: row.purpose,
    per: row.per,
    mode: row.mode,
    onStoreFailure: row.onStoreFailure,
  }
}

function nameOf({ name, path }: WrittenRow): string {
  if (name !== undefined) return name
  const last = path.split('/').findLast((segment) => segment !== '' && segment !== '*')
  return last ?? (path.endsWith('*') ? 'all' : 'root')
}

function checkWindows(json: JsonFile<WrittenLimits>, rows: readonly WrittenRow[]): void {
  for (const [index, row] of rows.entries()) {
    const path = `$.limits[${index}].window`
    if (!json.sound(path) || windowToMs(row.window) <= MAX_WINDOW_MS) continue
    json.refuse({ path, reason: `must be at most "${MAX_WINDOW}", but is "${row.window}"` })
  }
}

/** Names identify rows in RateLimit fields and metrics. */
function checkNames(
  json: JsonFile<WrittenLimits>,
  rows: readonly WrittenRow[],
  sound: ReadonlySet<number>,
): void {
  const owners = new Map<string, number>()
  for (const [index, row] of rows.entries()) {
    const path = `$.limits[${index}].name`
    // The name may come from the path, so a row with a faulty path is skipped.
    if (!sound.has(index) || !json.sound(path)) continue
    const name = nameOf(row)
    const owner = owners.get(name)
    if (owner !== undefined) {
      json.refuse({
        path,
        reason: `"${name}" is also the name of $.limits[${owner}]: give this row a "name"`,
      })
    } else if (!NAME.test(name)) {
      json.refuse({ path, reason: `is missing, and the path's last segment "${name}" cannot be used for it` })
    }
    if (owner === undefined) owners.set(name, index)
  }
}
