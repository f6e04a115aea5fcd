import type { AuditRecord } from '../testing/audit-file.ts'

/** The request ids that do not have exactly one record of each type. */
export function unpaired(records: readonly AuditRecord[]): unknown[] {
  const types = new Map<string, string[]>()
  for (const { type, requestId } of records) {
    if (requestId !== undefined) types.set(requestId, [...(types.get(requestId) ?? []), type])
  }
  return [...types].filter(([, of]) => of.join() !== 'API_REQUEST,API_RESPONSE')
}
