import { withoutNames } from '../../edge/rules/path-template.ts'
import { countedPath, type LimitRow } from './limit-table.ts'

export interface RowRecord {
  /** Never used twice. */
  readonly id: number
  readonly name: string
  readonly path: string
  /** Sorted; null means every method. */
  readonly methods: readonly string[] | null
  readonly limit: number
  readonly windowMs: number
  /** Hits at or before this epoch time do not count; null: all count. */
  readonly horizonMs: number | null
}

export function recordOf(row: LimitRow, id: number): RowRecord {
  const methods = row.methods === undefined ? null : [...row.methods].sort()
  const { name, limit, windowMs } = row
  return { id, name, path: countedPath(row), methods, limit, windowMs, horizonMs: null }
}

/** Hits that had expired before the edit never count again under a longer window. */
export function editedRecord(record: RowRecord, row: LimitRow, nowMs: number): RowRecord {
  const next = recordOf(row, record.id)
  if (row.windowMs === record.windowMs) return { ...next, horizonMs: record.horizonMs }
  return {
    ...next,
    horizonMs: Math.max(record.horizonMs ?? Number.NEGATIVE_INFINITY, nowMs - record.windowMs),
  }
}

/**
 * Finds the old row whose counts each new row continues: the one with its path and methods, else a free one with its
 * name. If that row had several windows, takes the shortest of those at least as long as the new one, else the longest.
 *
 * @param rows each of one window
 */
export function matchRows<T extends RowRecord>(
  olds: readonly T[],
  rows: readonly LimitRow[],
): Map<LimitRow, T> {
  const matches = new Map<LimitRow, T>()
  const byPlace = Map.groupBy(
    olds.toSorted((one, other) => one.windowMs - other.windowMs),
    placeOf,
  )
  for (const row of rows) {
    const windows = byPlace.get(placeOf(recordOf(row, 0))) ?? []
    const old = windows.find(({ windowMs }) => windowMs >= row.windowMs) ?? windows.at(-1)
    if (old !== undefined) matches.set(row, old)
  }
  const followed = new Set(matches.values())
  const byName = new Map(olds.filter((old) => !followed.has(old)).map((old) => [old.name, old]))
  for (const row of rows) {
    const old = byName.get(row.name)
    if (old !== undefined && !matches.has(row)) matches.set(row, old)
  }
  return matches
}

function placeOf(record: RowRecord): string {
  return JSON.stringify([withoutNames(record.path), record.methods])
}
