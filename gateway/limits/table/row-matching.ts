import { withoutNames } from '../../edge/rules/path-template.ts'
import type { LimitRow } from './limit-table.ts'

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
  const { name, path, limit, windowMs } = row
  return { id, name, path, methods, limit, windowMs, horizonMs: null }
}

/** The record after an edit. Hits that had expired before it never count again under a longer window. */
export function editedRecord(record: RowRecord, row: LimitRow, nowMs: number): RowRecord {
  const next = recordOf(row, record.id)
  if (row.windowMs === record.windowMs) return { ...next, horizonMs: record.horizonMs }
  return {
    ...next,
    horizonMs: Math.max(record.horizonMs ?? Number.NEGATIVE_INFINITY, nowMs - record.windowMs),
  }
}

/**
 * Finds the old row whose counts each new row keeps: that with its path, methods and window, else the longest with its path and methods,
 * else that with its name; none twice.
 *
 * @param rows each of one window
 */
export function matchRows<T extends RowRecord>(
  olds: readonly T[],
  rows: readonly LimitRow[],
): Map<LimitRow, T> {
  const matches = new Map<LimitRow, T>()
  const free = new Set(olds.toSorted((one, other) => other.windowMs - one.windowMs))
  for (const markOf of [windowOf, placeOf, ({ name }: RowRecord) => name]) {
    const byMark = Map.groupBy(free, markOf)
    for (const row of rows) {
      if (matches.has(row)) continue
      const old = byMark.get(markOf(recordOf(row, 0)))?.shift()
      if (old !== undefined && free.delete(old)) matches.set(row, old)
    }
  }
  return matches
}

function windowOf(record: RowRecord): string {
  return `${placeOf(record)} ${record.windowMs}`
}

function placeOf(record: RowRecord): string {
  return JSON.stringify([withoutNames(record.path), record.methods])
}
