import type { Spread } from './statistics.ts'
import { ratioOf, spreadOf } from './statistics.ts'

/** One run of one contender, in microseconds. */
export interface Measure {
  /** `saturation` or the fixed rate. */
  readonly load: string
  readonly round: number
  readonly perSecond: number
  readonly userUs: number
  readonly systemUs: number
  /** The store's time, not within `userUs` and `systemUs`. */
  readonly storeUs?: number
  readonly latencyUs?: { readonly p50: number; readonly p99: number; readonly p999: number }
  /** The generator's lateness for 99 % of requests. */
  readonly latenessP99Us?: number
}

export interface EntryReport {
  readonly name: string
  readonly measures: readonly Measure[]
  /** Peak resident memory of all processes; undefined when it did not run. */
  readonly peakBytes: number | undefined
  readonly skipped: string | undefined
}

export interface ScenarioReport {
  readonly id: string
  readonly title: string
  /** Entries that, like the first, are compared with all others. */
  readonly references: readonly string[]
  readonly entries: readonly EntryReport[]
}

export interface Report {
  /** ISO 8601. */
  readonly date: string
  readonly rounds: number
  readonly secondsPerRound: number
  readonly facts: readonly (readonly [string, string])[]
  readonly contenders: readonly { readonly name: string; readonly version: string; readonly work: string }[]
  readonly scenarios: readonly ScenarioReport[]
}

export const SATURATION = 'saturation'

/** CPU µs per response, without the store. */
export function cpuOf(measure: Measure): number {
  return measure.userUs + measure.systemUs
}

/** CPU µs per response, with the store. */
export function wholeCpuOf(measure: Measure): number {
  return cpuOf(measure) + (measure.storeUs ?? 0)
}

/** The value over all rounds; undefined when the entry did not run. */
export function spreadAt(
  entry: EntryReport,
  load: string,
  value: (measure: Measure) => number | undefined,
): Spread | undefined {
  const values = [...byRound(entry, load, value).values()]
  return values.length === 0 ? undefined : spreadOf(values)
}

/** `one` divided by `other`, round by round. */
export function ratioAt(
  pair: { readonly one: EntryReport; readonly other: EntryReport },
  load: string,
  value: (measure: Measure) => number | undefined,
): Spread | undefined {
  return ratioOf(byRound(pair.one, load, value), byRound(pair.other, load, value))
}

function byRound(
  entry: EntryReport,
  load: string,
  value: (measure: Measure) => number | undefined,
): Map<number, number> {
  const values = new Map<number, number>()
  for (const measure of entry.measures) {
    const read = measure.load === load ? value(measure) : undefined
    if (read !== undefined) values.set(measure.round, read)
  }
  return values
}
