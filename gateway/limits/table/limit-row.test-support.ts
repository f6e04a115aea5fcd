import type { LimitRow } from './limit-table.ts'

/** A row of the table, with the changes of a test. */
export function makeRow(changes: Partial<LimitRow> = {}): LimitRow {
  return {
    name: 'x',
    path: '/api/x',
    methods: undefined,
    limit: 3,
    window: '1m',
    windowMs: 60_000,
    purpose: 'a test',
    per: 'caller',
    mode: 'enforce',
    cost: 1,
    onStoreFailure: 'local',
    ...changes,
  }
}

/** A row named `x` with several windows. */
export function rowWith(
  bounds: readonly (readonly [limit: number, windowMs: number])[],
  changes: Partial<LimitRow> = {},
): LimitRow {
  const isAlone = bounds.length === 1
  const row = bounds.reduceRight<LimitRow | undefined>((next, [limit, windowMs]) => {
    const window = `${windowMs / 1000}s`
    const name = isAlone ? 'x' : `x-${window}`
    return makeRow({ name, limit, window, windowMs, ...changes, ...(next && { next }) })
  }, undefined)
  return row ?? makeRow(changes)
}
