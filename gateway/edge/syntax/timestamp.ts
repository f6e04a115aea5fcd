const SECOND_MS = 1000

let minted = { second: Number.NaN, prefix: '' }

/** ISO 8601 in UTC with milliseconds, like `toISOString`. All but the milliseconds is made once a second. */
export function timestampOf(epochMs: number): string {
  const second = Math.floor(epochMs / SECOND_MS)
  if (second !== minted.second) {
    minted = { second, prefix: new Date(second * SECOND_MS).toISOString().slice(0, -4) }
  }
  const ms = Math.floor(epochMs - second * SECOND_MS)
  return `${minted.prefix}${ms < 10 ? '00' : ms < 100 ? '0' : ''}${ms}Z`
}
