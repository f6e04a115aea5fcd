const UNIT_MS: ReadonlyMap<string, number> = new Map([
  ['s', 1000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
])

/** Milliseconds of a window such as `30s`, `1m`, `1h` or `1d`; NaN for anything else. */
export function windowToMs(window: string): number {
  return Number(window.slice(0, -1)) * (UNIT_MS.get(window.slice(-1)) ?? Number.NaN)
}

export const MAX_CACHE_MS = 5 * 60_000

export function cacheToMs(cache: string): number {
  return cache === 'off' ? 0 : windowToMs(cache)
}

export function windowAtMost(most: string): (window: string) => string | undefined {
  const mostMs = windowToMs(most)
  return (window) =>
    windowToMs(window) <= mostMs ? undefined : `must be at most "${most}", but is "${window}"`
}
