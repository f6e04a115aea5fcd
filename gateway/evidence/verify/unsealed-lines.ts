import { statSync } from 'node:fs'
import { RECORD_HEAD, START_HEAD } from '../../audit/audit-records.ts'
import { isOrderlyStop } from '../../audit/recovery/recovery.ts'
import { FOREIGN_HEAD, SEAL_HEAD } from '../../audit/seal-records.ts'
import { blocksOf, linesIn, timeOf } from '../../audit/segments/read-segment.ts'
import type { Segment } from '../../audit/segments/segment.ts'
import { plural } from '../../terminal/printable.ts'
import { parseLine, writtenMs } from '../records/audit-line.ts'
import type { Finding, Place } from './finding.ts'

const MAX_UNSEALED_MS = 10_000
const RECOVERED_END = ',"recovered":true'

interface UnsealedLines {
  /** Begins with the segment of the last sealed line. */
  readonly segments: readonly Segment[]
  readonly from: Place
  readonly size: number
  readonly isAllowed: boolean
  readonly nowMs: number
}

/**
 * Judges the lines behind the last sealed one. A gateway leaves only records there, for a short time; behind an orderly
 * end, only the AUDIT_SEAL.
 */
export async function judgeUnsealed(unsealed: UnsealedLines): Promise<readonly Finding[]> {
  const { segments, isAllowed, nowMs } = unsealed
  const open = segments.at(-1)
  const modifiedMs = (open && statSync(open.path, { throwIfNoEntry: false })?.mtimeMs) ?? 0
  let last = ''
  let count = 0
  let isEnd = false
  let hasSeal = false
  /** The first line behind the last seal, and the oldest of the lines there. */
  let first: { readonly place: Place; readonly line: string } | undefined
  let oldest: { readonly ms: number; readonly place: Place } | undefined
  let sealedMs = 0
  let latestMs = modifiedMs
  let added: Finding | undefined
  for await (const { place, bytes } of linesFrom(unsealed)) {
    const line = bytes.toString('latin1')
    const ms = writtenMs(bytes)
    const latest = ms ?? timeOf(bytes) ?? 0
    if (place.byte === unsealed.from.byte && place.file === unsealed.from.file) {
      latestMs = Math.max(latestMs, latest)
      sealedMs = latest
      last = line
      continue
    }
    count++
    if (count === 1) {
      isEnd = isOrderlyStop(last)
      hasSeal = isSealOver(line, unsealed.size)
      if (hasSeal) continue
    }
    // The next start of a gateway cuts a torn line off.
    if (!line.endsWith('\n') && isTorn(line) && !(isEnd && hasSeal && count === 2)) break
    latestMs = Math.max(latestMs, latest)
    if (first === undefined) oldest = { ms: Math.max(sealedMs, latest), place }
    else if (ms !== undefined && ms < (oldest?.ms ?? 0)) oldest = { ms, place }
    first ??= { place, line }
    added ??= additionIn(line, place)
  }
  if (added !== undefined) return [added]
  if (first === undefined || oldest === undefined) return []
  const { line } = first
  const isStart = line.startsWith(START_HEAD) || line.includes(RECOVERED_END)
  if (isEnd && !(isStart && (isAllowed || Math.abs(nowMs - modifiedMs) <= MAX_UNSEALED_MS))) {
    return [
      {
        what: 'added',
        place: first.place,
        text: 'this line and those after it stand behind the end of the sealed trail',
      },
    ]
  }
  const ageMs = latestMs - oldest.ms
  if (isAllowed || ageMs <= MAX_UNSEALED_MS) return []
  const text = `${plural(count, 'line after the last seal is', 'lines after the last seal are')} still unsealed after ${Math.round(ageMs / 1000)} s: somebody has added them, or the gateway crashed before it sealed them (--allow-unsealed)`
  return [{ what: 'unsealed', place: oldest.place, text }]
}

/** True for the beginning of a record, and for NULs that a power failure left. */
function isTorn(line: string): boolean {
  return line.startsWith(RECORD_HEAD) || RECORD_HEAD.startsWith(line) || line.includes('\0')
}

function additionIn(line: string, place: Place): Finding | undefined {
  if (line.includes('\0')) return undefined
  if (!line.startsWith(RECORD_HEAD) || !line.trimEnd().endsWith('}'))
    return { what: 'added', place, text: 'this is no record, and no seal covers it' }
  if (!line.startsWith(FOREIGN_HEAD)) return undefined
  const { file, at, found, reason } = parseLine(Buffer.from(line, 'latin1')) ?? {}
  return {
    what: 'added',
    place,
    text: `this record says that others have written to ${file}, from byte ${at} of ${found} on (${reason})`,
  }
}

function isSealOver(line: string, size: number): boolean {
  return line.startsWith(SEAL_HEAD) && parseLine(Buffer.from(line, 'latin1'))?.size === size
}

async function* linesFrom({
  segments,
  from,
}: UnsealedLines): AsyncGenerator<{ readonly place: Place; readonly bytes: Buffer }> {
  for (const [i, segment] of segments.entries()) {
    let byte = i === 0 ? from.byte : 0
    let line = i === 0 ? from.line : 1
    for await (const block of blocksOf(segment, byte)) {
      for (const bytes of linesIn(block)) {
        yield { place: { file: segment.path, line, byte }, bytes }
        byte += bytes.length
        line++
      }
    }
  }
}
