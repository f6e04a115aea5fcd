import type { AuditRecord } from '../testing/audit-file.ts'

/** Request ids without exactly one record of each type. */
export function unpaired(records: readonly AuditRecord[]): unknown[] {
  const types = new Map<string, string[]>()
  for (const { type, requestId } of records) {
    if (requestId !== undefined) types.set(requestId, [...(types.get(requestId) ?? []), type])
  }
  return [...types].filter(([, of]) => of.join() !== 'API_REQUEST,API_RESPONSE')
}

/** Responses that clients saw, and that the trail lacks or contradicts. @param seen statuses by request id */
export function contradicted(
  records: readonly AuditRecord[],
  seen: ReadonlyMap<string, number>,
): { readonly id: string; readonly seen: number; readonly recorded: unknown }[] {
  const recorded = new Map<unknown, unknown>()
  for (const { type, requestId, statusCode } of records)
    if (type === 'API_RESPONSE') recorded.set(requestId, statusCode)
  return [...seen].flatMap(([id, status]) =>
    recorded.get(id) === status ? [] : [{ id, seen: status, recorded: recorded.get(id) }],
  )
}
