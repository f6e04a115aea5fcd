import { RECORD_MAX_BYTES } from '../../audit/audit-records.ts'

/** A line of the trail as it was parsed; any member may be missing or something else in a damaged one. */
export type AuditLine = Readonly<Record<string, unknown>>

/** Undefined for what is not a record. @param line with or without its `\n`. */
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

/** What a member says, whoever wrote it: an object can have members that make a conversion of it throw. */
export function textOf(value: unknown): string {
  return typeof value === 'object' && value !== null ? '(not a text)' : String(value)
}

/** NaN for what is not a number. */
export function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : Number.NaN
}

/** Milliseconds since the epoch; NaN without one. */
export function timestampMs(record: AuditLine): number {
  return typeof record.timestamp === 'string' ? Date.parse(record.timestamp) : Number.NaN
}
