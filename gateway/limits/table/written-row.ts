import type { LimitRow } from './limit-row.ts'

/** A row in the form of config/limits.json, with defaults filled in: for the audit trail. */
export function writtenRow(row: LimitRow): object {
  const { path, limit, window, purpose, name, per, mode, onStoreFailure } = row
  const methods = row.methods === undefined ? undefined : [...row.methods]
  return { path, limit, window, purpose, name, methods, per, mode, onStoreFailure }
}
