const SECOND_MS = 1000

let minted = { second: Number.NaN, text: '' }

/** The value of `Date` (RFC 9110 section 5.6.7), made once a second. */
export function dateOf(epochMs: number): string {
  const second = Math.floor(epochMs / SECOND_MS)
  if (second !== minted.second) minted = { second, text: new Date(epochMs).toUTCString() }
  return minted.text
}
