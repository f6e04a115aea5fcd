import { isDeepStrictEqual } from 'node:util'
import type { ConfigPart, ConfigReport, PartInForce } from '../admin/config-in-force.ts'
import { NEED_RESTART } from '../config/json/key-names.ts'

type Row = Readonly<Record<string, unknown>>

/** Names rows, so that an edited row does not count as removed and added. */
const IDENTITY: Readonly<Partial<Record<ConfigPart, (row: Row) => string>>> = {
  gateway: ({ path, methods }) => `route ${path}${methods === undefined ? '' : ` ${String(methods)}`}`,
  limits: ({ name, plan }) => (plan === undefined ? `limit ${name}` : `plan ${plan}`),
  clients: ({ id }) => `client ${id}`,
}

/** Differences of `ours` by file: `+` added, `-` removed, `~` changed. The order of rows does not count. */
export function compareConfig(inForce: ConfigReport, ours: ConfigReport): string[] {
  const parts = Object.keys({ ...inForce.parts, ...ours.parts }) as ConfigPart[]
  return parts.flatMap((part) => {
    const [before, after] = [inForce.parts[part], ours.parts[part]]
    if (before?.hash === after?.hash) return []
    const changes = [...comparePart(part, before, after)]
    return changes.length === 0 ? [] : [`${after?.file ?? before?.file}:`, ...changes]
  })
}

function* comparePart(
  part: ConfigPart,
  before: PartInForce | undefined,
  after: PartInForce | undefined,
): Iterable<string> {
  yield* settingsDifferences({ ...before?.settings }, { ...after?.settings })
  const identify = IDENTITY[part] ?? (() => part)
  const byName = (rows: readonly object[] = []) => new Map(rows.map((row) => [identify(row as Row), row]))
  const [olds, news] = [byName(before?.rows), byName(after?.rows)]
  for (const [name, row] of olds) if (!news.has(name)) yield `  - ${name}: ${JSON.stringify(row)}`
  for (const [name, row] of news) {
    const old = olds.get(name)
    if (old === undefined) yield `  + ${name}: ${JSON.stringify(row)}`
    else yield* differences(old, row, `${name}: `)
  }
}

function* settingsDifferences(before: Row, after: Row): Iterable<string> {
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    for (const line of differences(before[key], after[key], key)) {
      const [, path = ''] = /^ {2}~ ([^:]*):/.exec(line) ?? []
      yield NEED_RESTART.has(key) || NEED_RESTART.has(path.split('.', 2).join('.'))
        ? `${line} (after a restart)`
        : line
    }
  }
}

/** Yields `~ timeouts.headersMs: 30000 → 20000` for each changed leaf. */
function* differences(before: unknown, after: unknown, path: string): Iterable<string> {
  if (isDeepStrictEqual(before, after)) return
  if (!isObject(before) || !isObject(after)) {
    yield `  ~ ${path}: ${JSON.stringify(before) ?? 'unset'} → ${JSON.stringify(after) ?? 'unset'}`
    return
  }
  const inside = path === '' || path.endsWith(': ') ? path : `${path}.`
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    yield* differences(before[key], after[key], inside + key)
  }
}

function isObject(value: unknown): value is Row {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
