import { RECORD_MAX_BYTES } from '../../audit/audit-records.ts'

/** A parsed line of the trail; in a damaged one any member may be missing or of another type. */
export type AuditLine = Readonly<Record<string, unknown>>

/** Undefined: it is no record. */
export function parseLine(line: Buffer): AuditLine | undefined {
  if (line.length > RECORD_MAX_BYTES) return undefined
  try {
    const value: unknown = JSON.parse(line.toString())
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as AuditLine)
      : undefined
  } catch {
    return undefined
  }
}

/** A member as text. An object is not converted: its own members could make that throw. */
export function textOf(value: unknown): string {
  return typeof value === 'object' && value !== null ? '(not a text)' : String(value)
}

export function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : Number.NaN
}

export function timestampMs(record: AuditLine): number {
  return typeof record.timestamp === 'string' ? Date.parse(record.timestamp) : Number.NaN
}
