import type { Spread } from './statistics.ts'
import { ratioOf, spreadOf } from './statistics.ts'

/** One run of one contender. Times are microseconds. */
export interface Measure {
  /** `saturation` or the fixed rate. */
  readonly load: string
  readonly round: number
  readonly perSecond: number
  readonly userUs: number
  readonly systemUs: number
  /** User and system time of the contender's store, which `userUs` and `systemUs` do not hold. */
  readonly storeUs?: number
  readonly latencyUs?: { readonly p50: number; readonly p99: number; readonly p999: number }
  /** The generator's own lateness, at most, for 99 % of the requests. */
  readonly latenessP99Us?: number
}

/** One contender in one scenario. */
export interface EntryReport {
  readonly name: string
  readonly measures: readonly Measure[]
  /** Peak resident memory of all its processes; undefined when it did not run. */
  readonly peakBytes: number | undefined
  /** Why measures are missing. */
  readonly skipped: string | undefined
}

export interface ScenarioReport {
  readonly id: string
  readonly title: string
  /** Besides the first, these entries are compared with all others by CPU. */
  readonly references: readonly string[]
  readonly entries: readonly EntryReport[]
}

/** A whole run of the benchmark. */
export interface Report {
  /** ISO 8601. */
  readonly date: string
  readonly rounds: number
  readonly secondsPerRound: number
  /** Pairs of name and value. */
  readonly facts: readonly (readonly [string, string])[]
  /** What each contender does for a request. */
  readonly contenders: readonly { readonly name: string; readonly version: string; readonly work: string }[]
  readonly scenarios: readonly ScenarioReport[]
}

export const SATURATION = 'saturation'

/** CPU per response, µs, without the store's. */
export function cpuOf(measure: Measure): number {
  return measure.userUs + measure.systemUs
}

/** CPU per response, µs, with the store's. */
export function wholeCpuOf(measure: Measure): number {
  return cpuOf(measure) + (measure.storeUs ?? 0)
}

/** The value over all rounds at this load; undefined when the entry did not run. */
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
