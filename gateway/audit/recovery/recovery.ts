import { existsSync, fstatSync } from 'node:fs'
import { dirname } from 'node:path'
import { naming, realPathOf } from '../../storage/append-file.ts'
import { withFile } from '../../storage/line-file.ts'
import { endOfLastLine, linesBackward } from '../../storage/lines-backward.ts'
import { inodeOf, readAt } from '../../storage/regular-file.ts'
import { cutTornLine } from '../../storage/torn-line.ts'
import { recoveredRecord, START_HEAD, STOP_HEAD } from '../audit-records.ts'
import { candidatesIn, rotatedFile } from '../file/rotated-file.ts'
import type { FileEnd, FilePlace } from '../file/trail-file.ts'
import { FOREIGN_HEAD, type ForeignWrite, SEAL_HEAD } from '../seal-records.ts'
import { OpenRequests, parsed } from './open-requests.ts'

/** AUDIT_FOREIGN is looked for in these first bytes. */
const HEAD_BYTES = 65_536

export interface Recovery {
  /** API_RESPONSE lines to append first. */
  readonly records: readonly string[]
  readonly cutBytes: number
  readonly damagedLines: number
  readonly unresolved: number
  /** End of the file at an orderly stop, and its size with foreign bytes. */
  readonly foreign?: { readonly at: number; readonly found: number } | undefined
}

/**
 * Cuts off a torn last line and finds every API_REQUEST without API_RESPONSE. Reads backwards, also in rotated,
 * uncompressed files, until all open requests are found. Append the records before AUDIT_START, so that even a killed
 * start loses nothing.
 * @throws Error that names the file
 */
export function recover(file: string): Recovery {
  const requests = new OpenRequests()
  return naming(file, () => {
    const found = existsSync(file) ? readOpen(file, requests) : { cutBytes: 0 }
    readRotated(realPathOf(file), requests)
    const records = requests.lines().map(recoveredRecord)
    return { records, damagedLines: requests.damagedLines, unresolved: requests.missing(), ...found }
  })
}

/** True when the last line, seals aside, is an orderly AUDIT_STOP, or there is no line. */
export function hasEnded(file: string): boolean {
  if (!existsSync(file)) return true
  return withFile(file, 'r', (fd) => {
    for (const line of linesBackward(fd, endOfLastLine(fd, fstatSync(fd).size)))
      if (!line.startsWith(SEAL_HEAD)) return isOrderlyStop(line)
    return true
  })
}

/** Finds AUDIT_FOREIGN, with which a file begins after a foreign write. */
export function foreignBefore(file: string): ForeignWrite | undefined {
  if (!existsSync(file)) return undefined
  return withFile(file, 'r', (fd) => {
    const lines = readAt(fd, 0, HEAD_BYTES).toString().split('\n')
    const line = lines.slice(0, -1).find((one) => one.startsWith(FOREIGN_HEAD))
    return line === undefined ? undefined : (parsed(line) as ForeignWrite | undefined)
  })
}

/** @param file name of the trail, even if its present file was renamed */
export function filesOfOpenRequests(file: string, { end, open, inode }: FileEnd & FilePlace): Set<string> {
  const requests = new OpenRequests(open)
  return naming(file, () => {
    const own = realPathOf(file)
    const path = inodeOf(own) === inode ? own : rotatedFile(own, inode, new Set(), candidatesIn(dirname(own)))
    if (path === undefined) return new Set()
    readTrail(path, requests, end)
    return readRotated(path, requests)
  })
}

/**
 * Finds foreign bytes behind an orderly end (AUDIT_STOP and its AUDIT_SEAL). Only a start writes there: recovered
 * responses, then AUDIT_START.
 */
function bytesBehindEnd(fd: number, found: number): Recovery['foreign'] {
  let end = endOfLastLine(fd, found)
  /** End of the following line, if that is an AUDIT_SEAL. */
  let sealEnd: number | undefined
  for (const line of linesBackward(fd, end)) {
    if (line.startsWith(START_HEAD)) return undefined
    if (sealEnd !== undefined)
      return isOrderlyStop(line) && sealEnd < found ? { at: sealEnd, found } : undefined
    sealEnd = line.startsWith(SEAL_HEAD) ? end : undefined
    end -= line.length + 1
  }
  return undefined
}

function readOpen(file: string, requests: OpenRequests): Pick<Recovery, 'foreign' | 'cutBytes'> {
  return withFile(file, 'r', (fd) => {
    const foreign = bytesBehindEnd(fd, fstatSync(fd).size)
    const cutBytes = foreign === undefined ? cutTornLine(file) : 0
    readLines(fd, requests, foreign?.at ?? fstatSync(fd).size)
    return { cutBytes, ...(foreign && { foreign }) }
  })
}

/** False for the AUDIT_STOP of a failed write, a rotation or a removed file, because the trail goes on after it. */
export function isOrderlyStop(line: string): boolean {
  return line.startsWith(STOP_HEAD) && !/,"reason":"(?:write failed|rotated|removed)/.test(line)
}

function readRotated(file: string, requests: OpenRequests): Set<string> {
  const visited = new Set([file])
  const candidates = requests.found ? new Map() : candidatesIn(dirname(file))
  while (!requests.found) {
    const before = rotatedFile(file, requests.continues, visited, candidates)
    if (before === undefined) break
    visited.add(before)
    requests.continues = undefined
    readTrail(before, requests)
  }
  return visited
}

function readTrail(file: string, requests: OpenRequests, sizeBytes?: number): void {
  withFile(file, 'r', (fd) => {
    const { ino, size: found } = fstatSync(fd, { bigint: true })
    const end = sizeBytes ?? requests.ends.get(ino.toString()) ?? Number.POSITIVE_INFINITY
    readLines(fd, requests, Math.min(end, Number(found)))
  })
}

function readLines(fd: number, requests: OpenRequests, size: number): void {
  for (const line of linesBackward(fd, endOfLastLine(fd, size))) {
    if (requests.found) return
    requests.read(line)
  }
}
