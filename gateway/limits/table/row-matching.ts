import type { LimitRow } from './limit-row.ts'

/** A row as its counters and the journal have it: plain JSON. */
export interface RowRecord {
  /** Identifies the row's counters in the journal; never used twice. */
  readonly id: number
  readonly name: string
  readonly path: string
  /** Sorted; null means every method. */
  readonly methods: readonly string[] | null
  readonly limit: number
  readonly windowMs: number
  /** Hits at or before this epoch time in milliseconds do not count; null means all count. */
  readonly horizonMs: number | null
}

export function recordOf(row: LimitRow, id: number): RowRecord {
  const methods = row.methods === undefined ? null : [...row.methods].sort()
  const { name, path, limit, windowMs } = row
  return { id, name, path, methods, limit, windowMs, horizonMs: null }
}

/**
 * The record after an edit to `row` at `nowMs`. Hits that had expired before the edit never count again: otherwise a
 * longer window would count those that happen to be still in memory.
 */
export function editedRecord(record: RowRecord, row: LimitRow, nowMs: number): RowRecord {
  const next = recordOf(row, record.id)
  if (row.windowMs === record.windowMs) return { ...next, horizonMs: record.horizonMs }
  return {
    ...next,
    horizonMs: Math.max(record.horizonMs ?? Number.NEGATIVE_INFINITY, nowMs - record.windowMs),
  }
}

/**
 * The old row whose counts each row of a new table keeps: the one with the same path and methods, else the one with the
 * same name. No old row is matched twice.
 */
export function matchRows<T extends RowRecord>(
  olds: readonly T[],
  rows: readonly LimitRow[],
): Map<LimitRow, T> {
  const matches = new Map<LimitRow, T>()
  const free = new Set(olds)
  const byPlace = new Map(olds.map((old) => [placeOf(old), old]))
  for (const row of rows) claim(row, byPlace.get(placeOf(recordOf(row, 0))))
  const byName = new Map([...free].map((old) => [old.name, old]))
  for (const row of rows) if (!matches.has(row)) claim(row, byName.get(row.name))
  return matches

  function claim(row: LimitRow, old: T | undefined): void {
    if (old !== undefined && free.delete(old)) matches.set(row, old)
  }
}

function placeOf(record: RowRecord): string {
  return JSON.stringify([record.path, record.methods])
}
