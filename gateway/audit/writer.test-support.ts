import { writeSync } from 'node:fs'
import { setTimeout as afterMs, setImmediate as turn } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import type { Durability } from '../config/settings.ts'
import { newRequestId } from '../http/rules/request-id.ts'
import { responseTo } from './audit-records.ts'
import type { TrailHandle } from './file/shared-trail.ts'
import { joinTrail } from './open-trail.ts'
import { endOf, requestLine } from './trail.test-support.ts'

/** For tests only: a thread that joins a trail and writes to it. */

export interface WriterData {
  readonly handle: TrailHandle
  readonly durability: Durability
  readonly name: string
  /** Requests to be accepted; unlimited when left out. */
  readonly count?: number
  /** Whether each accepted request is printed to standard output. */
  readonly acknowledges?: boolean
}

/** The counts of a thread that has ended. */
export interface Written {
  readonly accepted: number
  readonly refused: number
  /** Refused because another thread held the lock for too long; not in `refused`. */
  readonly keptOut: number
  readonly recorded: number
  readonly faults: number
}

const { handle, durability, name, count = Infinity, acknowledges } = workerData as WriterData
let recorded = 0
let faults = 0
const trail = joinTrail(handle, { durability, onFault: () => faults++, onRecord: () => recorded++ })
const open: string[] = []
let last: ReturnType<typeof trail.settle>
let accepted = 0
let refused = 0
let keptOut = 0

function respond(): void {
  const [line] = open.splice((accepted * 7) % open.length, 1)
  if (line !== undefined) last = trail.settle(responseTo(line, 200, 1))
}

function acknowledge(id: string): void {
  for (;;) {
    try {
      writeSync(1, `${id}\n`)
      return
    } catch (error) {
      // A non-blocking pipe can be full.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
    }
  }
}

function take(line: string, id: string): void {
  accepted++
  open.push(line)
  if (acknowledges) acknowledge(id)
  if (open.length > 20) respond()
}

/** Requests of one turn of the event loop, which can share a commit. */
const TOGETHER = 4

for (let i = 0; accepted < count; ) {
  const ends: Promise<void>[] = []
  for (const last = i + Math.min(TOGETHER, count - accepted); i < last; i++) {
    const id = `${name}-${i}`
    const line = requestLine(id, undefined, newRequestId())
    const noted = (error: Error | undefined) => {
      if (error === undefined) take(line, id)
      else if (/held the audit file for too long/.test(error.message)) keptOut++
      else refused++
    }
    ends.push(endOf(trail.append(line)).then(noted))
  }
  await Promise.all(ends)
  // Slow enough that the buffer is flushed during the run, and that an outage is not spent on being refused.
  if (!trail.writable) await afterMs(1)
  else if (i % 16 === 0) await (durability === 'buffered' ? afterMs(1) : turn())
}
while (open.length > 0) respond()
// What gathers must have been written, or be pending, before the close, which gives up on a full disk. Commits end in order.
await endOf(last)
if (durability === 'buffered') await afterMs(20)
while (!trail.recheck()) await afterMs(5)
trail.close('done')
parentPort?.postMessage({ accepted, refused, keptOut, recorded, faults } satisfies Written)
