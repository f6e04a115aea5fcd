import type { Spread, Totals } from './totals.ts'
import type { Point } from './wire.ts'

/** Per second; never negative, as after counters that began anew. */
export function perSecond(before: number | undefined, after: number | undefined, ms: number): number {
  return ms <= 0 ? 0 : (Math.max(0, (after ?? 0) - (before ?? 0)) * 1000) / ms
}

export function pointBetween(before: Totals, after: Totals): Point {
  const ms = after.atMs - before.atMs
  const rate = (matches: (status: string) => boolean) =>
    perSecond(countOf(before.statuses, matches), countOf(after.statuses, matches), ms)
  const always = () => true
  return {
    t: after.atMs / 1000,
    ok: rate((status) => /^[123]/.test(status)),
    clientErrors: rate((status) => status.startsWith('4')),
    serverErrors: rate((status) => !/^[1234]/.test(status)),
    refused: perSecond(countOf(before.refusals, always), countOf(after.refusals, always), ms),
    p50Ms: quantileMs(0.5, before.latency, after.latency),
    p95Ms: quantileMs(0.95, before.latency, after.latency),
    p99Ms: quantileMs(0.99, before.latency, after.latency),
  }
}

function countOf(counts: ReadonlyMap<string, number>, matches: (name: string) => boolean): number {
  let total = 0
  for (const [name, count] of counts) if (matches(name)) total += count
  return total
}

/**
 * The quantile of what was observed between two moments, in milliseconds; null when nothing was. As Prometheus's
 * `histogram_quantile`: linear within a bucket, and the last finite bound for what is above it.
 */
export function quantileMs(quantile: number, before: Spread | undefined, after: Spread): number | null {
  const { boundsSeconds } = after
  const counts = after.counts.map((count, i) => Math.max(0, count - (before?.counts[i] ?? 0)))
  const total = counts.at(-1) ?? 0
  if (total === 0) return null
  const rank = quantile * total
  const at = counts.findIndex((count) => count >= rank)
  const upper = boundsSeconds[at] ?? Number.POSITIVE_INFINITY
  const lower = boundsSeconds[at - 1] ?? 0
  if (upper === Number.POSITIVE_INFINITY) return lower * 1000
  const below = counts[at - 1] ?? 0
  const inside = (counts[at] ?? 0) - below
  return (lower + ((upper - lower) * (rank - below)) / inside) * 1000
}
