import type { LimitRow } from './limit-table.ts'

/** A row of the table, with what a test says of it. */
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
    onStoreFailure: 'local',
    ...changes,
  }
}
