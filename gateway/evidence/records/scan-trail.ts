import { closeSync, openSync, readSync } from 'node:fs'
import { blocksOf } from '../../audit/segments/read-segment.ts'
import type { Segment } from '../../audit/segments/segment.ts'
import { firstWritten, lastWrittenMs } from './written-at.ts'

/** Milliseconds since the epoch; the end does not belong to it. */
export interface Period {
  readonly fromMs: number
  readonly toMs: number
}

/** Called as reading goes on, with bytes on the disk. */
export type OnRead = (readBytes: number, totalBytes: number) => void

export interface TrailBlock {
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

/**
 * The blocks of a trail (whole lines; see `blocksOf`) that may hold the records of requests that began in the period, and
 * all between. Lines stand in the order in which they were written, not in that of their timestamps, which are the starts of
 * requests: so it begins where lines were written before the period, and ends `RECORDED_WITHIN_MS` after it, or when
 * nothing is open any more. Segments are skipped by the first line of the next, and inside a plain one it bisects. Where a
 * clock was set back by more than the slack between two segments, all is read.
 */
export async function* blocksWritten(
  segments: readonly Segment[],
  { period, hasOpen = () => false, onRead }: Scan,
): AsyncGenerator<TrailBlock, void, undefined> {
  if (period !== undefined && !(await areInOrder(segments))) {
    yield* blocksWritten(segments, { onRead })
    return
  }
  const totalBytes = segments.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  const isPast = (ms: number | undefined) =>
    period !== undefined && ms !== undefined && ms > period.toMs + RECORDED_WITHIN_MS && !hasOpen()
  let doneBytes = 0
  for (const [i, segment] of segments.entries()) {
    const next = segments[i + 1]
    const isBefore =
      period !== undefined &&
      next !== undefined &&
      beganBefore(await beginMs(next), period.fromMs - CLOCK_SLACK_MS)
    if (!isBefore) {
      const from = period === undefined ? 0 : firstByte(segment, period.fromMs - CLOCK_SLACK_MS)
      let at = from
      for await (const bytes of blocksOf(segment, from)) {
        at += bytes.length
        yield { segment, bytes }
        if (isPast(lastWrittenMs(bytes))) return
        onRead?.(doneBytes + (segment.compression === 'none' ? at : 0), totalBytes)
      }
    }
    doneBytes += segment.sizeBytes
    onRead?.(doneBytes, totalBytes)
  }
}

/** Without those that were closed before that time. */
export async function segmentsSince(
  segments: readonly Segment[],
  sinceMs: number,
): Promise<readonly Segment[]> {
  for (let i = segments.length - 1; i > 0; i--) {
    if (beganBefore(await beginMs(segments[i] as Segment), sinceMs)) return segments.slice(i)
  }
  return segments
}

async function areInOrder(segments: readonly Segment[]): Promise<boolean> {
  let latestMs = Number.NEGATIVE_INFINITY
  for (const segment of segments) {
    const ms = await beginMs(segment)
    if (beganBefore(ms, latestMs - CLOCK_SLACK_MS)) return false
    latestMs = Math.max(latestMs, ms ?? latestMs)
  }
  return true
}

function beganBefore(ms: number | undefined, limitMs: number): boolean {
  return ms !== undefined && ms < limitMs
}

/** When the first line was written, if it tells, as AUDIT_START does. */
async function beginMs(segment: Segment): Promise<number | undefined> {
  for await (const block of blocksOf(segment)) {
    const first = firstWritten(block)
    return first?.at === 0 ? first.ms : undefined
  }
  return undefined
}

/** Where a line begins before which every line was written before that time; 0 for a compressed segment. */
function firstByte({ path, compression, sizeBytes }: Segment, timeMs: number): number {
  if (compression !== 'none') return 0
  const fd = openSync(path, 'r')
  try {
    const probe = Buffer.allocUnsafe(PROBE_BYTES)
    let low = 0
    let high = sizeBytes
    while (high - low > BISECT_BYTES) {
      const middle = Math.floor((low + high) / 2)
      const block = probe.subarray(0, readSync(fd, probe, 0, probe.length, middle))
      const first = firstWritten(block, block.indexOf(NEWLINE) + 1)
      if (first !== undefined && first.ms < timeMs) low = middle + first.at
      else high = middle
    }
    return low
  } finally {
    closeSync(fd)
  }
}
