import { closeSync, existsSync, fstatSync, openSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { realPathOf, unusable } from '../../storage/append-file.ts'
import { endOfLastLine, linesBackward } from '../../storage/lines-backward.ts'
import { cutTornLine } from '../../storage/torn-line.ts'
import { recoveredRecord } from '../audit-records.ts'
import { candidatesIn, rotatedFile } from '../file/rotated-file.ts'
import type { TrailFile } from '../file/trail-file.ts'
import { OpenRequests } from './open-requests.ts'

/** What a start found in the trail of the last run. */
export interface Recovery {
  /** API_RESPONSE lines to append before anything else, in the order of their requests. */
  readonly records: readonly string[]
  /** Bytes of a torn last line that were cut off. */
  readonly cutBytes: number
  /** Lines read that are not records. They are left as they are. */
  readonly damagedLines: number
  /** Open requests that the trail has counted but that were in no file found. */
  readonly unresolved: number
}

/**
 * Repairs the trail of the last run: cuts off a torn last line and finds every API_REQUEST without API_RESPONSE. Call it
 * before the trail is opened, and append the records before AUDIT_START: then a start that is killed itself loses nothing,
 * because the next one finds the rest.
 *
 * Pairs have the same gateway id; where a record has none, the same request id and timestamp, and n requests need n
 * responses. Reads backwards to a line that says that no request before it was open: after a clean stop the last line,
 * after a crash the last AUDIT_START. Continues in rotated files of the same directory that are not compressed.
 *
 * @param file a regular file, or missing.
 * @throws Error that names the file, when it cannot be read or repaired.
 */
export function recover(file: string): Recovery {
  const requests = new OpenRequests()
  try {
    const cutBytes = existsSync(file) ? cutTornLine(file) : 0
    if (existsSync(file)) readTrail(file, requests)
    readRotated(realPathOf(file), requests)
    const records = requests.lines().map(recoveredRecord)
    return { records, cutBytes, damagedLines: requests.damagedLines, unresolved: requests.missing() }
  } catch (error) {
    throw unusable(file, error)
  }
}

/** Of a trail in use: its open requests, and the files that tell them. */
interface InUse {
  /** API_REQUEST lines that have no API_RESPONSE, in order. */
  readonly lines: readonly string[]
  /** From the one in use back to the one with the first of them. */
  readonly files: ReadonlySet<string>
}

/**
 * Reads back no further than the first open request. May be called in any thread.
 *
 * @param file its name; the file in use may have been renamed already.
 * @throws Error that names the file, when it cannot be read.
 */
export function openRequestsOf(file: string, trailFile: TrailFile): InUse {
  const { end, open, inode } = trailFile.present()
  const requests = new OpenRequests(open)
  try {
    const own = realPathOf(file)
    const isPresent = statSync(own, { bigint: true, throwIfNoEntry: false })?.ino.toString() === inode
    const path = isPresent ? own : rotatedFile(own, inode, new Set(), candidatesIn(dirname(own)))
    if (path === undefined) return { lines: [], files: new Set() }
    readTrail(path, requests, end)
    return { files: readRotated(path, requests), lines: requests.lines() }
  } catch (error) {
    throw unusable(file, error)
  }
}

/** Reads back through rotated files, as far as needed and found. @returns these and `file`. */
function readRotated(file: string, requests: OpenRequests): Set<string> {
  const visited = new Set([file])
  const candidates = requests.found ? new Map() : candidatesIn(dirname(file))
  while (!requests.found) {
    const before = rotatedFile(file, requests.continues, visited, candidates)
    if (before === undefined) break
    visited.add(before)
    requests.beginFile()
    readTrail(before, requests)
  }
  return visited
}

function readTrail(file: string, requests: OpenRequests, sizeBytes?: number): void {
  const fd = openSync(file, 'r')
  try {
    const size = Math.min(sizeBytes ?? Number.POSITIVE_INFINITY, fstatSync(fd).size)
    for (const line of linesBackward(fd, endOfLastLine(fd, size))) {
      if (requests.found) return
      requests.read(line)
    }
  } finally {
    closeSync(fd)
  }
}
