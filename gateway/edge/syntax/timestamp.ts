const SECOND_MS = 1000

let timestamp = { second: Number.NaN, prefix: '' }
let httpDate = { second: Number.NaN, text: '' }

/** ISO 8601 in UTC with milliseconds, like `toISOString`, but faster. */
export function timestampOf(epochMs: number): string {
  const second = Math.floor(epochMs / SECOND_MS)
  if (second !== timestamp.second)
    timestamp = { second, prefix: new Date(second * SECOND_MS).toISOString().slice(0, -4) }
  const ms = Math.floor(epochMs - second * SECOND_MS)
  return `${timestamp.prefix}${ms < 10 ? '00' : ms < 100 ? '0' : ''}${ms}Z`
}

/** True for an ISO 8601 date, or a time in UTC, that the calendar has. `Date.parse` takes 30 February for 2 March. */
export function isInCalendar(iso: string): boolean {
  const ms = Date.parse(iso)
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(iso.replace('Z', ''))
}

/** The value of `Date` (RFC 9110 section 5.6.7). */
export function dateOf(epochMs: number): string {
  const second = Math.floor(epochMs / SECOND_MS)
  if (second !== httpDate.second) httpDate = { second, text: new Date(epochMs).toUTCString() }
  return httpDate.text
}
