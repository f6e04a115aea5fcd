import { closeSync, readSync } from 'node:fs'
import { blocksOf, firstLineOf, openPlain } from '../../audit/segments/read-segment.ts'
import type { Segment } from '../../audit/segments/segment.ts'
import { lastWrittenMs, latestWrittenMs, writtenMs } from './written-at.ts'

/** Milliseconds since the epoch; the end does not belong to it. */
export interface Period {
  readonly fromMs: number
  readonly toMs: number
}

/** Called as reading goes on, with bytes on the disk. */
export type OnRead = (readBytes: number, totalBytes: number) => void

interface TrailBlock {
  readonly segment: Segment
  readonly bytes: Buffer
}

interface Scan {
  /** Records of requests that began in it are wanted; all of the trail without it. */
  readonly period?: Period | undefined
  /** A wanted request has not got its response yet: reading goes on. */
  readonly hasOpen?: () => boolean
  readonly onRead?: OnRead | undefined
}

/** The clock of a gateway may have been set back by as much as this. */
const CLOCK_SLACK_MS = 5 * 60_000
/** A request has its record this long after it began, at the latest: what is before it (head, credentials) has time-outs below. */
const RECORDED_WITHIN_MS = 10 * 60_000

/** Below this a bisection goes on by reading. */
const BISECT_BYTES = 512 * 1024
const PROBE_BYTES = 128 * 1024
const NEWLINE = 10
/** In AUDIT_START alone: no other line begins so. */
const SET_BACK = /^\{"type":"AUDIT_START",.*"clockSetBackMs":(\d{1,15})/

/** A segment, and what its first line says. */
interface Headed {
  readonly segment: Segment
  readonly beginMs: number | undefined
  /** By how much the clock was set back at the end of the segment before; 0: not at all. */
  readonly setBackMs: number
}

/**
 * The blocks of a trail (whole lines; see `blocksOf`) that may hold the records of requests that began in the period, and
 * all between. Lines stand in the order in which they were written, not in that of their timestamps, which are the starts of
 * requests: so it begins where lines were written before the period, and ends `RECORDED_WITHIN_MS` after it, or when
 * nothing is open any more. Segments are skipped by the first line of the next, and inside a plain one it bisects.
 *
 * Where the gateway or the lines say that the clock was set back, another run of segments begins, which is searched for itself; the
 * segment before is read whole. Where segments of a run begin in another order than that of time, all of it is read.
 */
export async function* blocksWritten(
  segments: readonly Segment[],
  { period, hasOpen = () => false, onRead }: Scan,
): AsyncGenerator<TrailBlock, void, undefined> {
  const totalBytes = segments.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  let doneBytes = 0
  const runs = period === undefined ? [new Run(segments.map(unread), ALWAYS)] : await runsOf(segments, period)
  for (const run of runs) {
    let isPast = false
    for (const [i, { segment }] of run.segments.entries()) {
      const isWhole = run.isWhole(i)
      if (isWhole || hasOpen() || (!isPast && !run.isBefore(i))) {
        const from = isWhole || hasOpen() ? 0 : firstByte(segment, run.fromMs)
        let at = from
        for await (const bytes of blocksOf(segment, from)) {
          at += bytes.length
          yield { segment, bytes }
          isPast = !isWhole && !hasOpen() && run.isPast(bytes)
          if (isPast) break
          onRead?.(doneBytes + (segment.compression === 'none' ? at : 0), totalBytes)
        }
      }
      doneBytes += segment.sizeBytes
      onRead?.(doneBytes, totalBytes)
    }
  }
}

const ALWAYS: Period = { fromMs: Number.NEGATIVE_INFINITY, toMs: Number.POSITIVE_INFINITY }

interface RunClock {
  /** It was set back at the end of the run: the last lines are of another time. */
  readonly isSetBack?: boolean
  /** The latest time that it told before the run; undefined: it was not set back yet. */
  readonly clockWasMs?: number | undefined
}

/** Segments through which the clock went forward. */
class Run {
  readonly segments: readonly Headed[]
  readonly fromMs: number
  readonly #toMs: number
  readonly #isSetBack: boolean
  readonly #isInOrder: boolean
  /** Responses of requests that began before may tell the clock as it was before. */
  readonly #responsesFromMs: number

  constructor(segments: readonly Headed[], period: Period, { isSetBack, clockWasMs }: RunClock = {}) {
    this.segments = segments
    this.fromMs = period.fromMs - CLOCK_SLACK_MS
    this.#toMs = period.toMs + RECORDED_WITHIN_MS
    this.#isSetBack = isSetBack === true
    this.#isInOrder = areInOrder(segments)
    this.#responsesFromMs = clockWasMs === undefined ? 0 : clockWasMs + CLOCK_SLACK_MS
  }

  /** All of it must be read. */
  isWhole(index: number): boolean {
    return !this.#isInOrder || (this.#isSetBack && index === this.segments.length - 1)
  }

  /** It was closed before the period. */
  isBefore(index: number): boolean {
    return beganBefore(this.segments[index + 1]?.beginMs, this.fromMs)
  }

  /** It was written after the period. */
  isPast(block: Buffer): boolean {
    const ms = lastWrittenMs(block, this.#responsesFromMs)
    return ms !== undefined && ms > this.#toMs
  }
}

async function runsOf(segments: readonly Segment[], period: Period): Promise<readonly Run[]> {
  const runs: Headed[][] = []
  for (const [i, segment] of segments.entries()) {
    const headed = await headOf(segment, segments[i - 1])
    const last = runs.at(-1)
    if (last === undefined || headed.setBackMs > 0) runs.push([headed])
    else last.push(headed)
  }
  let clockWasMs: number | undefined
  return runs.map((run, i) => {
    const { beginMs = 0, setBackMs = 0 } = run[0] ?? {}
    // It may have been set back before by more: a request can outlast several runs.
    if (setBackMs > 0) clockWasMs = Math.max(clockWasMs ?? 0, beginMs + setBackMs)
    return new Run(run, period, { isSetBack: i < runs.length - 1, clockWasMs })
  })
}

/** Without those that were closed before that time, by the clock as it was then. */
export async function segmentsSince(
  segments: readonly Segment[],
  sinceMs: number,
): Promise<readonly Segment[]> {
  let from: number | undefined
  for (let i = segments.length - 1; i > 0; i--) {
    const { beginMs, setBackMs } = await headOf(segments[i] as Segment, segments[i - 1])
    if (from === undefined && beganBefore(beginMs, sinceMs)) from = i
    // The clock has been there before it was set back.
    if (setBackMs > 0 && !beganBefore(beginMs, sinceMs - setBackMs - CLOCK_SLACK_MS)) from = undefined
  }
  return segments.slice(from ?? 0)
}

function areInOrder(segments: readonly Headed[]): boolean {
  let latestMs = Number.NEGATIVE_INFINITY
  for (const { beginMs } of segments) {
    if (beganBefore(beginMs, latestMs - CLOCK_SLACK_MS)) return false
    latestMs = Math.max(latestMs, beginMs ?? latestMs)
  }
  return true
}

function beganBefore(ms: number | undefined, limitMs: number): boolean {
  return ms !== undefined && ms < limitMs
}

function unread(segment: Segment): Headed {
  return { segment, beginMs: undefined, setBackMs: 0 }
}

async function headOf(segment: Segment, before: Segment | undefined): Promise<Headed> {
  const line = await firstLineOf(segment)
  // Other first lines, after a rotation of others, tell less.
  const beginMs = line && writtenMs(line)
  const saysMs = Number(SET_BACK.exec(line?.toString('latin1') ?? '')?.[1] ?? 0)
  if (saysMs > 0 || before === undefined || beginMs === undefined)
    return { segment, beginMs, setBackMs: saysMs }
  // The clock was set back while there was no gateway, or by one that was killed before it could say so.
  const backMs = (endMs(before) ?? beginMs) - beginMs
  return { segment, beginMs, setBackMs: backMs > CLOCK_SLACK_MS ? backMs : 0 }
}

/** The latest time in the last lines; undefined for a compressed segment. */
function endMs(segment: Segment): number | undefined {
  const fd = openPlain(segment)
  if (fd === undefined) return undefined
  const { sizeBytes } = segment
  try {
    const from = Math.max(0, sizeBytes - PROBE_BYTES)
    const block = probe(fd, from)
    return latestWrittenMs(from === 0 ? block : block.subarray(block.indexOf(NEWLINE) + 1))
  } finally {
    closeSync(fd)
  }
}

function probe(fd: number, at: number): Buffer {
  const bytes = Buffer.allocUnsafe(PROBE_BYTES)
  return bytes.subarray(0, readSync(fd, bytes, 0, bytes.length, at))
}

/** Where a line begins before which every line was written before that time; 0 for a compressed segment. */
function firstByte(segment: Segment, timeMs: number): number {
  const fd = openPlain(segment)
  if (fd === undefined) return 0
  const { sizeBytes } = segment
  try {
    let low = 0
    let high = sizeBytes
    while (high - low > BISECT_BYTES) {
      const middle = Math.floor((low + high) / 2)
      const block = probe(fd, middle)
      const at = block.indexOf(NEWLINE) + 1
      if (beganBefore(latestWrittenMs(block.subarray(at)), timeMs)) low = middle + at
      else high = middle
    }
    return low
  } finally {
    closeSync(fd)
  }
}
