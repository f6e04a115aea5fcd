import { blocksOf, firstLineOf, NEWLINE, withPlain } from '../../audit/segments/read-segment.ts'
import type { Segment } from '../../audit/segments/segment.ts'
import { readAt } from '../../storage/regular-file.ts'
import { lastWrittenMs, latestWrittenMs, writtenMs } from './audit-line.ts'

/** `toMs` itself is outside. */
export interface Period {
  readonly fromMs: number
  readonly toMs: number
}

/** In compressed files, compressed bytes count. */
export type OnRead = (readBytes: number, totalBytes: number) => void

interface Scan {
  /** Records of requests that began in it are wanted; undefined: all of the trail. */
  readonly period?: Period | undefined
  /** True while a wanted request has no response, so reading goes on. */
  readonly hasOpen?: () => boolean
  readonly onRead?: OnRead | undefined
}

/** Largest set-back of a clock that goes unnoticed. */
const CLOCK_SLACK_MS = 5 * 60_000
/** A request has its record within this time, which is longer than its head and credentials may take. */
const RECORDED_WITHIN_MS = 10 * 60_000
const BISECT_BYTES = 512 * 1024
const PROBE_BYTES = 128 * 1024
const SET_BACK = /^\{"type":"AUDIT_START",.*"clockSetBackMs":(\d{1,15})/

interface Head {
  readonly beginMs: number | undefined
  /** Set-back of the clock before this segment. */
  readonly setBackMs: number
}

/**
 * Reads blocks of whole lines that may hold records of requests that began in the period. Reading ends
 * `RECORDED_WITHIN_MS` after the period, if no wanted request is open and the clock was not set back at a later
 * segment. All segments are read if they are not in the order of time.
 */
export async function* blocksWritten(
  segments: readonly Segment[],
  { period, hasOpen = () => false, onRead }: Scan,
): AsyncGenerator<{ readonly segment: Segment; readonly bytes: Buffer }, void, undefined> {
  const totalBytes = segments.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  const heads = period === undefined ? [] : await headsOf(segments)
  const isBounded = period !== undefined && areInOrder(heads)
  const fromMs = isBounded ? period.fromMs - CLOCK_SLACK_MS : 0
  const toMs = isBounded ? period.toMs + RECORDED_WITHIN_MS : Number.POSITIVE_INFINITY
  const begin = isBounded ? firstSince(heads, fromMs) : 0
  const lastSetBack = heads.findLastIndex(({ setBackMs }) => setBackMs > 0)
  let doneBytes = 0
  for (const [i, segment] of segments.entries()) {
    if (i >= begin) {
      // A segment that ends with a set-back clock is not in the order of time at its end.
      const isBisected = isBounded && i === begin && !heads[i + 1]?.setBackMs
      const from = isBisected ? firstByte(segment, fromMs) : 0
      let at = from
      for await (const bytes of blocksOf(segment, from)) {
        at += bytes.length
        yield { segment, bytes }
        // A response whose request began before the clock was set back has a time of the old clock.
        const writtenMs = i < lastSetBack || hasOpen() ? undefined : lastWrittenMs(bytes, lastSetBack < 0)
        if (writtenMs !== undefined && writtenMs > toMs) return
        onRead?.(doneBytes + (segment.compression === 'none' ? at : 0), totalBytes)
      }
    }
    doneBytes += segment.sizeBytes
    onRead?.(doneBytes, totalBytes)
  }
}

/** Leaves out segments that were closed before `sinceMs`, by the clock at their closing. */
export async function segmentsSince(
  segments: readonly Segment[],
  sinceMs: number,
): Promise<readonly Segment[]> {
  return segments.slice(firstSince(await headsOf(segments), sinceMs))
}

function firstSince(heads: readonly Head[], sinceMs: number): number {
  let from: number | undefined
  for (let i = heads.length - 1; i > 0; i--) {
    const { beginMs, setBackMs } = heads[i] as Head
    if (from === undefined && beganBefore(beginMs, sinceMs)) from = i
    // Before it was set back, the clock may have passed this time already.
    if (setBackMs > 0 && !beganBefore(beginMs, sinceMs - setBackMs - CLOCK_SLACK_MS)) from = undefined
  }
  return from ?? 0
}

function areInOrder(heads: readonly Head[]): boolean {
  let latestMs = Number.NEGATIVE_INFINITY
  for (const { beginMs, setBackMs } of heads) {
    if (setBackMs > 0) latestMs = Number.NEGATIVE_INFINITY
    if (beganBefore(beginMs, latestMs - CLOCK_SLACK_MS)) return false
    latestMs = Math.max(latestMs, beginMs ?? latestMs)
  }
  return true
}

function beganBefore(ms: number | undefined, limitMs: number): boolean {
  return ms !== undefined && ms < limitMs
}

async function headsOf(segments: readonly Segment[]): Promise<Head[]> {
  const heads: Head[] = []
  for (const [i, segment] of segments.entries()) heads.push(await headOf(segment, segments[i - 1]))
  return heads
}

async function headOf(segment: Segment, before: Segment | undefined): Promise<Head> {
  const line = await firstLineOf(segment)
  // After a rotation by another program, the first line may tell no time.
  const beginMs = line && writtenMs(line)
  const saysMs = Number(SET_BACK.exec(line?.toString('latin1') ?? '')?.[1] ?? 0)
  if (saysMs > 0 || before === undefined || beginMs === undefined) return { beginMs, setBackMs: saysMs }
  // The clock may have been set back while no gateway ran, so no line says it.
  const backMs = (endMs(before) ?? beginMs) - beginMs
  return { beginMs, setBackMs: backMs > CLOCK_SLACK_MS ? backMs : 0 }
}

/** Undefined for a compressed segment. */
function endMs(segment: Segment): number | undefined {
  return withPlain(segment, (fd) => {
    const from = Math.max(0, segment.sizeBytes - PROBE_BYTES)
    const block = readAt(fd, from, PROBE_BYTES)
    return latestWrittenMs(from === 0 ? block : block.subarray(block.indexOf(NEWLINE) + 1))
  })
}

/** The byte at which a line begins. All lines before it are older than `timeMs`. 0 for a compressed segment. */
function firstByte(segment: Segment, timeMs: number): number {
  let low = 0
  withPlain(segment, (fd) => {
    let high = segment.sizeBytes
    while (high - low > BISECT_BYTES) {
      const middle = Math.floor((low + high) / 2)
      const block = readAt(fd, middle, PROBE_BYTES)
      const at = block.indexOf(NEWLINE) + 1
      if (beganBefore(latestWrittenMs(block.subarray(at)), timeMs)) low = middle + at
      else high = middle
    }
  })
  return low
}
