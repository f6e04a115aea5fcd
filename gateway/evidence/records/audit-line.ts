import { RECORD_MAX_BYTES, REQUEST_HEAD, RESPONSE_HEAD } from '../../audit/audit-records.ts'
import { linesIn, NEWLINE, timeOf } from '../../audit/segments/read-segment.ts'
import { parsedJson } from '../../storage/line-file.ts'

/** A parsed line of the trail; in a damaged one any member may be missing or of another type. */
export type AuditLine = Readonly<Record<string, unknown>>

export function parseLine(line: Buffer): AuditLine | undefined {
  const value = line.length > RECORD_MAX_BYTES ? undefined : parsedJson(line.toString())
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isObject ? (value as AuditLine) : undefined
}

/** Does not convert an object, because a member such as `toString` could throw. */
export function textOf(value: unknown): string {
  return typeof value === 'object' && value !== null ? '(not a text)' : String(value)
}

export function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : Number.NaN
}

export function timestampMs(record: AuditLine): number {
  return typeof record.timestamp === 'string' ? Date.parse(record.timestamp) : Number.NaN
}

const RESPONSE = Buffer.from(RESPONSE_HEAD)
const REQUEST = Buffer.from(REQUEST_HEAD)
const LAST_MS = 8_640_000_000_000_000
const DURATION = /,"statusCode":\d+,"duration":([\d.]+)(,"recovered":true)?/

/** Time at which a line was written. Requests and recovered responses do not tell it. */
export function writtenMs(line: Buffer): number | undefined {
  if (startsWith(line, REQUEST)) return undefined
  const startMs = timeOf(line)
  if (startMs === undefined || !startsWith(line, RESPONSE)) return startMs
  const [, durationMs, recovered] = DURATION.exec(line.toString('latin1')) ?? []
  if (durationMs === undefined || recovered !== undefined) return undefined
  const endMs = startMs + Number(durationMs)
  return endMs <= LAST_MS ? endMs : undefined
}

/** The latest time in whole lines. A response tells too early a time if the clock was set forward meanwhile. */
export function latestWrittenMs(block: Buffer): number | undefined {
  let latestMs: number | undefined
  for (const line of linesIn(block.subarray(0, block.lastIndexOf(NEWLINE) + 1))) {
    const ms = writtenMs(line) ?? timeOf(line)
    if (ms !== undefined) latestMs = Math.max(ms, latestMs ?? ms)
  }
  return latestMs
}

/** @param responsesTell false: responses are skipped */
export function lastWrittenMs(block: Buffer, responsesTell: boolean): number | undefined {
  for (let end = block.lastIndexOf(NEWLINE); end > 0; ) {
    const newline = block.lastIndexOf(NEWLINE, end - 1)
    const line = block.subarray(newline + 1, end)
    const ms = writtenMs(line)
    if (ms !== undefined && (responsesTell || !startsWith(line, RESPONSE))) return ms
    end = newline
  }
  return undefined
}

function startsWith(line: Buffer, head: Buffer): boolean {
  return line.length >= head.length && line.compare(head, 0, head.length, 0, head.length) === 0
}
