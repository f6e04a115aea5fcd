import { writeSync } from 'node:fs'
import { setTimeout as afterMs, setImmediate as turn } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import type { Durability } from '../config/settings.ts'
import { responseTo } from './audit-records.ts'
import type { TrailHandle } from './file/shared-trail.ts'
import { joinTrail } from './open-trail.ts'
import { endOf, requestLine } from './trail.test-support.ts'

/** For tests only: a thread that joins a trail and writes to it. */

export interface WriterData {
  readonly handle: TrailHandle
  readonly durability: Durability
  readonly name: string
  /** Requests that are let through; without end when left out. */
  readonly count?: number
  /** Whether every request that was accepted is told on standard output. */
  readonly acknowledges?: boolean
}

/** What a thread that came to its end has seen. */
export interface Written {
  readonly accepted: number
  readonly refused: number
  /** Beside those: refused because another thread had the file for longer than one is waited for. */
  readonly keptOut: number
  readonly recorded: number
  readonly faults: number
}

const { handle, durability, name, count = Infinity, acknowledges } = workerData as WriterData
let recorded = 0
let faults = 0
const trail = joinTrail(handle, { durability, onFault: () => faults++, onRecord: () => recorded++ })
const open: string[] = []
let accepted = 0
let refused = 0
let keptOut = 0

function answer(): void {
  const [line] = open.splice((accepted * 7) % open.length, 1)
  if (line !== undefined) trail.settle(responseTo(line, 200, 1))
}

function acknowledge(id: string): void {
  for (;;) {
    try {
      writeSync(1, `${id}\n`)
      return
    } catch (error) {
      // The reader may be slower than a pipe that does not block.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
    }
  }
}

function take(line: string, id: string): void {
  accepted++
  open.push(line)
  if (acknowledges) acknowledge(id)
  if (open.length > 20) answer()
}

/** Requests of one turn of the event loop: as many as may share a commit. */
const TOGETHER = 4

for (let i = 0; accepted < count; ) {
  const ends: Promise<void>[] = []
  for (const last = i + Math.min(TOGETHER, count - accepted); i < last; i++) {
    const id = `${name}-${i}`
    const line = requestLine(id)
    const noted = (error: Error | undefined) => {
      if (error === undefined) take(line, id)
      else if (/held the audit file for too long/.test(error.message)) keptOut++
      else refused++
    }
    ends.push(endOf(trail.append(line)).then(noted))
  }
  await Promise.all(ends)
  // Slow enough for what is buffered to be written, or not, before the work is done.
  if (i % 16 === 0 || !trail.writable) await (durability === 'buffered' ? afterMs(1) : turn())
}
while (open.length > 0) answer()
// Lines that have gathered must be written before the close, which gives up on a full disk: on a busy machine that takes time.
do await afterMs(200)
while (!trail.recheck())
trail.close('done')
parentPort?.postMessage({ accepted, refused, keptOut, recorded, faults } satisfies Written)
