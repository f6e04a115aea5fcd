import fs, { readFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { requestRecord, responseTo } from './audit-records.ts'
import { Commit } from './commit/commit.ts'
import { Trail } from './trail.ts'
import type { TrailOptions } from './trail-options.ts'

export { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'

export type Line = Record<string, unknown> & { readonly type: string }

/** Every line of a file. @throws SyntaxError when one is not JSON, Error when the last one is torn. */
export function linesOf(file: string): Line[] {
  const lines = readFileSync(file, 'utf8').split('\n')
  if (lines.pop() !== '') throw new Error(`${file} ends in a torn line`)
  return lines.map((line) => JSON.parse(line))
}

/** Requests, by request id and timestamp, that do not have exactly one response after them. */
export function unpaired(lines: readonly Line[]): string[] {
  const open = new Map<string, number>()
  const wrong: string[] = []
  for (const { type, requestId, timestamp } of lines) {
    const key = JSON.stringify([requestId, timestamp])
    const count = open.get(key) ?? 0
    if (type === 'API_REQUEST') open.set(key, count + 1)
    if (type === 'API_RESPONSE' && count === 0) wrong.push(`${key} has a response too many`)
    if (type === 'API_RESPONSE') open.set(key, count - 1)
  }
  for (const [key, count] of open) if (count > 0) wrong.push(`${key} lacks ${count}`)
  return wrong
}

export function requestLine(
  requestId: string,
  timestamp = '2026-01-02T03:04:05.678Z',
  gatewayId?: string,
): string {
  return requestRecord({
    requestId,
    timestamp,
    method: 'GET',
    path: '/api/balance',
    userId: undefined,
    clientId: undefined,
    ip: '::1',
    userAgent: 'ä "quoted"',
    gatewayId,
  })
}

export const responseLine = (request: string) => responseTo(request, 200, 1)

export const typesOf = (lines: readonly { readonly type: string }[]) => lines.map(({ type }) => type)

/** The descriptors by which this process has that file open. Linux only. */
export function openTo(path: string): string[] {
  const directory = '/proc/self/fd'
  return fs.readdirSync(directory).filter((fd) => {
    try {
      return fs.readlinkSync(join(directory, fd)) === path
    } catch {
      return false
    }
  })
}

/** Waits until a write gets a later time than the file has, because the kernel's clock ticks every few milliseconds. */
export function afterTimeOf(file: string): void {
  const directory = fs.mkdtempSync(join(tmpdir(), 'tick-'))
  const probe = join(directory, 'probe')
  const laterMs = fs.statSync(file).mtimeMs + 1
  do fs.writeFileSync(probe, 'x')
  while (fs.statSync(probe).mtimeMs < laterMs)
  fs.rmSync(directory, { recursive: true })
}

/** A trail in that directory, with what it reported. */
export function trailIn(directory: string, options: Partial<TrailOptions> = {}) {
  const file = join(directory, 'audit.ndjson')
  const faults: Error[] = []
  const records: string[] = []
  const trail = new Trail({
    file,
    version: '1.2.3',
    now: () => Date.UTC(2026, 0, 2),
    onFault: (error) => faults.push(error),
    onRecord: (type, count) => records.push(...Array<string>(count).fill(type)),
    ...options,
  })
  return { file, trail, faults, records }
}

/** Waits for a commit. @param outcome of `append` or `settle`. @returns why the line is not in the trail. */
export async function endOf(outcome: Error | Commit | undefined): Promise<Error | undefined> {
  if (!(outcome instanceof Commit)) return outcome
  return new Promise((resolve) => outcome.whenDone(resolve))
}

/** A disk under `node:fs` that can be full after any byte. Files are real; only writing and cutting go through it. */
export interface SmallDisk {
  roomBytes: number
  /** `false`: an append-only file, which cannot be cut. */
  canCut: boolean
  /** Writes that were tried so far. */
  writes: number
}

/** Replaces the disk of every file until the test ends. It has unlimited room until the test changes that. */
export function smallDisk(t: TestContext): SmallDisk {
  const disk: SmallDisk = { roomBytes: Number.POSITIVE_INFINITY, canCut: true, writes: 0 }
  const { writeSync, ftruncateSync } = fs
  const full = () => Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
  const write = (fd: number, bytes: Buffer, start: number, length: number) => {
    disk.writes++
    if (disk.roomBytes === 0) throw full()
    const count = writeSync(fd, bytes, start, Math.min(length, disk.roomBytes))
    disk.roomBytes -= count
    return count
  }
  const truncate = (fd: number, length: number) => {
    if (!disk.canCut) throw Object.assign(new Error('EPERM: operation not permitted'), { code: 'EPERM' })
    disk.roomBytes += fs.fstatSync(fd).size - length
    ftruncateSync(fd, length)
  }
  Object.assign(fs, { writeSync: write, ftruncateSync: truncate })
  syncBuiltinESMExports()
  t.after(() => {
    Object.assign(fs, { writeSync, ftruncateSync })
    syncBuiltinESMExports()
  })
  return disk
}
