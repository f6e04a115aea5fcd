import schema from '../../../config/schemas/limits.schema.json' with { type: 'json' }
import type { Parsed } from '../../config/faults.ts'
import { JsonFile } from '../../config/json/json-file.ts'
import { schemaCheck } from '../../config/json/schema-check.ts'
import type { Written } from '../../config/keys/key-types.ts'
import type { LIMITS_FILE } from '../../config/keys/limits-keys.ts'
import { methodSet } from '../../config/rules/method-rules.ts'
import { routePathFault } from '../../config/rules/path-rules.ts'
import { checkRows } from '../../config/rules/row-rules.ts'
import { windowToMs } from '../../config/rules/window-rule.ts'
import { isTemplate } from '../../edge/rules/path-template.ts'
import type { LimitRow } from './limit-table.ts'

type WrittenLimits = Written<typeof LIMITS_FILE>
type WrittenRow = WrittenLimits['limits'][number]

const MAX_WINDOW = '366d'
const MAX_WINDOW_MS = windowToMs(MAX_WINDOW)
const ROW_KEYS = schema.properties.limits.items.properties
const NAME = new RegExp(ROW_KEYS.name.pattern, 'u')

const checkSchema = schemaCheck(schema)

/** The rows in the order of the file. */
export function parseLimits(file: string, text: string): Parsed<readonly LimitRow[]> {
  const json = new JsonFile<WrittenLimits>(file, text, checkSchema)
  const rows = json.value?.limits
  if (!Array.isArray(rows)) return { faults: json.faults() }
  const sound = checkRows(json, '$.limits', rows, routePathFault)
  checkWindows(json, rows)
  checkNames(json, rows, sound)
  const faults = json.faults()
  return faults.length > 0 ? { faults } : { value: rows.map(limitRow) }
}

function limitRow(row: WrittenRow): LimitRow {
  const methods = methodSet(row.methods)
  const windows: readonly Pick<WrittenRow, 'limit' | 'window'>[] = row.windows ?? [row]
  const linked = windows.reduceRight<LimitRow | undefined>((next, { limit = 0, window = '' }) => {
    const counted = {
      name: row.windows === undefined ? nameOf(row) : policyOf(row, window),
      path: row.path,
      methods,
      limit,
      window,
      windowMs: windowToMs(window),
      cost: row.cost,
      purpose: row.purpose,
      per: row.per,
      mode: row.mode,
      onStoreFailure: row.onStoreFailure,
    }
    return next === undefined ? counted : { ...counted, next }
  }, undefined)
  return linked as LimitRow
}

function policyOf(row: WrittenRow, window: string): string {
  return `${nameOf(row)}-${window}`
}

function nameOf({ name, path }: WrittenRow): string {
  if (name !== undefined) return name
  const last = path
    .split('/')
    .findLast((segment) => segment !== '' && segment !== '*' && !isTemplate(segment))
  return last ?? (path.endsWith('*') ? 'all' : 'root')
}

function checkWindows(json: JsonFile<WrittenLimits>, rows: readonly WrittenRow[]): void {
  for (const [index, row] of rows.entries()) {
    const at = `$.limits[${index}]`
    const costs = (limit: number) =>
      limit < row.cost && json.sound(`${at}.cost`)
        ? `must be at least the "cost" ${row.cost}, but is ${limit}`
        : undefined
    json.check(`${at}.window`, row?.window, windowFault)
    json.check(`${at}.limit`, row?.limit, costs)
    if (row?.windows === undefined) {
      // A misspelt key is not also a missing one.
      if (row?.path === undefined || !Object.keys(row).every((key) => Object.hasOwn(ROW_KEYS, key))) continue
      for (const key of ['limit', 'window'] as const)
        if (row[key] === undefined) json.refuse({ path: `${at}.${key}`, reason: 'is missing' })
      continue
    }
    if (row.limit !== undefined || row.window !== undefined)
      json.refuse({
        path: `${at}.windows`,
        reason: 'must not stand beside "limit" and "window": write the one or the others',
      })
    if (!json.sound(`${at}.windows`)) continue
    const lengths = row.windows.map(({ window }) => windowToMs(window))
    for (const [i, { limit, window }] of row.windows.entries()) {
      json.check(`${at}.windows[${i}].limit`, limit, costs)
      json.check(`${at}.windows[${i}].window`, window, (it) =>
        lengths.indexOf(windowToMs(it)) < i ? `"${it}" is as long as a window before it` : windowFault(it),
      )
    }
  }
}

function windowFault(window: string): string | undefined {
  return windowToMs(window) <= MAX_WINDOW_MS
    ? undefined
    : `must be at most "${MAX_WINDOW}", but is "${window}"`
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
    const windows = json.sound(`$.limits[${index}].windows`) ? (row.windows ?? []) : []
    const names = [name, ...windows.map(({ window }) => policyOf(row, window))]
    const taken = names.find((one) => (owners.get(one) ?? index) !== index)
    if (taken !== undefined) {
      json.refuse({
        path,
        reason: `"${taken}" is also the name of $.limits[${owners.get(taken)}]: give this row a "name"`,
      })
    } else if (!NAME.test(name)) {
      json.refuse({ path, reason: `is missing, and the path's last segment "${name}" cannot be used for it` })
    }
    for (const one of names) if (!owners.has(one)) owners.set(one, index)
  }
}
