import { writeSync } from 'node:fs'
import { setTimeout as afterMs, setImmediate as turn } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import type { Durability } from '../config/settings.ts'
import { joinTrail } from './open.ts'
import { responseTo } from './records.ts'
import type { TrailHandle } from './shared.ts'
import { requestLine } from './trail.test-support.ts'

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

for (let i = 0; accepted < count; i++) {
  const id = `${name}-${i}`
  const line = requestLine(id)
  const outcome = trail.append(line)
  if (outcome instanceof Error) refused++
  else if (outcome === undefined) take(line, id)
  else {
    outcome.whenDone((error) => {
      if (error === undefined) take(line, id)
      else refused++
    })
    await new Promise<void>((resolve) => outcome.whenDone(() => resolve()))
  }
  if (i % 16 === 0 || !trail.writable) await turn()
}
while (open.length > 0) answer()
// What is gathered is written by itself, or owed; a close on a full disk would have to give it up.
do await afterMs(20)
while (!trail.recheck())
trail.close('done')
parentPort?.postMessage({ accepted, refused, recorded, faults } satisfies Written)
