import type { LimitRow } from './limit-row.ts'

/** What the counters of a row need to know of it, and what the journal remembers of it: plain JSON. */
export interface RowRecord {
  /** Names the counters in the journal; never used for two sets of counters. */
  readonly id: number
  readonly name: string
  readonly path: string
  /** Sorted; null is every method. */
  readonly methods: readonly string[] | null
  readonly limit: number
  readonly windowMs: number
  /** Hits at or before this epoch time in milliseconds are forgotten; null is none. */
  readonly horizonMs: number | null
}

/** The record of a row that nothing was counted for yet. */
export function recordOf(row: LimitRow, id: number): RowRecord {
  const methods = row.methods === undefined ? null : [...row.methods].sort()
  const { name, path, limit, windowMs } = row
  return { id, name, path, methods, limit, windowMs, horizonMs: null }
}

/**
 * The record of a row after an edit to `row` at `nowMs`. What the window before the edit had already let go of stays
 * forgotten: otherwise a longer window would remember or forget by the accident of what was still in memory.
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
 * Whose counts each row of a new table goes on with: those of the old row with the same path and methods, else of
 * the one with the same name. No old row is followed by two.
 */
export function predecessors<T extends RowRecord>(
  olds: readonly T[],
  rows: readonly LimitRow[],
): Map<LimitRow, T> {
  const found = new Map<LimitRow, T>()
  const free = new Set(olds)
  const places = new Map(olds.map((old) => [placeOf(old), old]))
  for (const row of rows) claim(row, places.get(placeOf(recordOf(row, 0))))
  const names = new Map([...free].map((old) => [old.name, old]))
  for (const row of rows) if (!found.has(row)) claim(row, names.get(row.name))
  return found

  function claim(row: LimitRow, old: T | undefined): void {
    if (old !== undefined && free.delete(old)) found.set(row, old)
  }
}

function placeOf(record: RowRecord): string {
  return JSON.stringify([record.path, record.methods])
}
