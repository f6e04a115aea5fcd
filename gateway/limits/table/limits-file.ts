import schema from '../../../config/schemas/limits.schema.json' with { type: 'json' }
import type { ClientTable } from '../../config/clients/clients-file.ts'
import type { Fault, Parsed } from '../../config/faults.ts'
import { JsonFile } from '../../config/json/json-file.ts'
import { schemaCheck } from '../../config/json/schema-check.ts'
import type { Written } from '../../config/keys/key-types.ts'
import type { LIMITS_FILE } from '../../config/keys/limits-keys.ts'
import { methodSet } from '../../config/rules/method-rules.ts'
import { routePathFault } from '../../config/rules/path-rules.ts'
import { checkRows } from '../../config/rules/row-rules.ts'
import { windowAtMost, windowToMs } from '../../config/rules/window-rule.ts'
import type { Settings } from '../../config/settings.ts'
import { isTemplate } from '../../edge/rules/path-template.ts'
import { plannedLimit } from '../windows/window.ts'
import { type LimitRow, type Limits, PLANNED } from './limit-table.ts'

type WrittenLimits = Written<typeof LIMITS_FILE>
type WrittenRow = WrittenLimits['limits'][number]

const windowFault = windowAtMost('366d')
const ROW_KEYS = schema.properties.limits.items.properties
const NAME = new RegExp(ROW_KEYS.name.pattern, 'u')

const checkSchema = schemaCheck(schema)

export function parseLimits(file: string, text: string): Parsed<Limits> {
  const json = new JsonFile<WrittenLimits>(file, text, checkSchema)
  const { limits, overall } = json.value ?? {}
  if (!Array.isArray(limits) || !Array.isArray(overall)) return { faults: json.faults() }
  const entries = [...entriesOf(json, '$.limits', limits), ...entriesOf(json, '$.overall', overall)]
  checkWindows(json, entries)
  checkNames(json, entries)
  const faults = json.faults()
  if (faults.length > 0) return { faults }
  const beside = (overall as WrittenLimits['overall']).map((row) => ({
    ...limitRow(row),
    isOverall: true as const,
  }))
  return { value: { rows: [...limits.map(limitRow), ...beside], plans: new Map(plansIn(json)) } }
}

interface Entry {
  readonly at: string
  readonly row: WrittenRow
  /** True when path and methods have no fault. */
  readonly isSound: boolean
}

function entriesOf(json: JsonFile<WrittenLimits>, list: string, rows: readonly WrittenRow[]): Entry[] {
  const sound = checkRows(json, list, rows, routePathFault)
  return rows.map((row, index) => ({ at: `${list}[${index}]`, row, isSound: sound.has(index) }))
}

/** Empty when a plan has a fault. */
function plansIn(json: JsonFile<WrittenLimits>): (readonly [name: string, factor: number])[] {
  const plans = json.sound('$.plans') ? (json.value?.plans ?? {}) : {}
  return Object.entries(plans).map(([name, { factor }]) => [name, factor])
}

/**
 * Finds what does not fit other files: a client whose plan is not here, plans that no client can have, and `overall`
 * with a Redis Cluster, where a script may use keys of one server only.
 */
export function limitFaults(
  file: string,
  { rows, plans }: Limits,
  { clientsFile, store }: Pick<Settings, 'clientsFile' | 'store'>,
  clients: ClientTable['rows'],
): Fault[] {
  const faults: Fault[] = []
  if (store?.kind === 'cluster' && rows.some(({ isOverall }) => isOverall)) {
    const reason = 'cannot be counted by a Redis Cluster: give GATEWAY_STORE one server, or Sentinels'
    faults.push({ file, path: '$.overall', reason })
  }
  if (clientsFile === undefined) {
    const reason =
      'no client can have a plan, because clients.json is not read: set GATEWAY_CLIENTS to its path'
    return plans.size === 0 ? faults : [...faults, { file, path: '$.plans', reason }]
  }
  for (const [at, { plan }] of clients.entries()) {
    if (plan === undefined || plans.has(plan)) continue
    const reason = `names no plan of limits.json: ${JSON.stringify(plan)}`
    faults.push({ file: clientsFile, path: `$.clients[${at}].plan`, reason })
  }
  return faults
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

function checkWindows(json: JsonFile<WrittenLimits>, entries: readonly Entry[]): void {
  const [smallest = ['', 1] as const] = plansIn(json).sort(([, one], [, other]) => one - other)
  for (const { at, row } of entries) {
    const costs = (limit: number) => {
      if (!json.sound(`${at}.cost`)) return undefined
      if (limit < row.cost) return `must be at least the "cost" ${row.cost}, but is ${limit}`
      const least = PLANNED.has(row.per) ? plannedLimit(limit, smallest[1]) : limit
      return least < row.cost
        ? `must be at least the "cost" ${row.cost} under each plan, but is ${least} under "${smallest[0]}"`
        : undefined
    }
    json.check(`${at}.window`, row?.window, windowFault)
    json.check(`${at}.limit`, row?.limit, costs)
    if (row?.windows === undefined) {
      // A misspelt key is not also reported as missing.
      if (row?.path === undefined || !Object.keys(row).every((key) => Object.hasOwn(ROW_KEYS, key))) continue
      for (const key of ['limit', 'window'] as const)
        if (row[key] === undefined) json.refuse({ path: `${at}.${key}`, reason: 'is missing' })
      continue
    }
    if (row.limit !== undefined || row.window !== undefined)
      json.refuse({
        path: `${at}.windows`,
        reason: 'must not stand beside "limit" and "window": keep either "windows" or the others',
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

/** Names identify rows in RateLimit fields and metrics. */
function checkNames(json: JsonFile<WrittenLimits>, entries: readonly Entry[]): void {
  const owners = new Map<string, string>()
  for (const { at, row, isSound } of entries) {
    const path = `${at}.name`
    // The name may come from the path.
    if (!isSound || !json.sound(path)) continue
    const name = nameOf(row)
    const windows = json.sound(`${at}.windows`) ? (row.windows ?? []) : []
    const names = [name, ...windows.map(({ window }) => policyOf(row, window))]
    const taken = names.find((one) => (owners.get(one) ?? at) !== at)
    if (taken !== undefined) {
      json.refuse({
        path,
        reason: `"${taken}" is also the name of ${owners.get(taken)}: give this row a "name"`,
      })
    } else if (!NAME.test(name)) {
      json.refuse({ path, reason: `is missing, and the path's last segment "${name}" cannot be used for it` })
    }
    for (const one of names) if (!owners.has(one)) owners.set(one, at)
  }
}
