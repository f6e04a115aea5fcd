export const LATENCY_BOUNDS_MS = [0.25, 0.5, 1, 2, 5, 10, 25] as const

export type StoreCounts = ReturnType<typeof newStoreCounts>

export function newStoreCounts() {
  return {
    roundTrips: 0,
    roundTripMs: 0,
    /** Not cumulative; one bucket more than `LATENCY_BOUNDS_MS`. */
    latency: new Array<number>(LATENCY_BOUNDS_MS.length + 1).fill(0),
    takes: 0,
    undecidedTakes: 0,
    scriptReloads: 0,
    outages: 0,
  }
}

export function countRoundTrip(counts: StoreCounts, ms: number): void {
  let bucket = 0
  while (bucket < LATENCY_BOUNDS_MS.length && ms > (LATENCY_BOUNDS_MS[bucket] ?? 0)) bucket++
  counts.latency[bucket] = (counts.latency[bucket] ?? 0) + 1
  counts.roundTrips++
  counts.roundTripMs += ms
}
