import { setPriority } from 'node:os'
import { setImmediate as turn } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { SharedTrail } from '../file/shared-trail.ts'
import type { SealGap } from './find-sealed.ts'
import { type PrivateSealKeys, sealKeyOf } from './seal-key.ts'
import { SealProgress, steadyMs } from './seal-progress.ts'
import { Sealer } from './sealer.ts'

/** What the thread that `Sealing` starts is given. */
export interface SealJob {
  readonly file: string
  readonly trail: SharedArrayBuffer
  readonly progress: SharedArrayBuffer
  readonly directory: string
  readonly keys: PrivateSealKeys
  readonly origin: string
}

/** What it says. It ends when it has sealed everything after the one message that it gets. */
export type SealNews =
  | { readonly type: 'sealed'; readonly size: number; readonly root: string }
  | ({ readonly type: 'gap' } & SealGap)
  | { readonly type: 'fault'; readonly cause: string }

/** How often it looks for new lines, and tries again what failed. */
const POLL_MS = 200
const RETRY_MS = 1000
/** Between two of many reads, each of which takes 1 ms: requests that share the processor need not wait for all of them. */
const PAUSE_MS = 4
/** So many reads have not reached the end: from here on without pauses. */
const PACED_READS = 400
/** The nice value of this thread: under full load on one processor about a seventh of it. */
const PRIORITY = 8

const job = workerData as SealJob
let finishing = false
let wake = () => {}

parentPort?.on('message', () => {
  finishing = true
  wake()
})
comeSecond()
await run(makeSealer)
parentPort?.close()

function makeSealer(): Sealer {
  return new Sealer({
    file: job.file,
    directory: job.directory,
    trail: new SharedTrail(job.trail),
    key: sealKeyOf(job.keys, job.origin),
    progress: new SealProgress(job.progress),
    now: steadyMs,
    onSealed: ({ size, root }) => tell({ type: 'sealed', size, root: root.toString('base64') }),
    onGap: (gap) => tell({ type: 'gap', ...gap }),
    onFault: (cause) => tell({ type: 'fault', cause }),
  })
}

/** Requests come first where they share a processor with this thread. Linux gives each thread a priority of its own. */
function comeSecond(): void {
  try {
    if (process.platform === 'linux') setPriority(0, PRIORITY)
  } catch {
    // A sandbox may forbid it.
  }
}

/** Seals until it is told to finish. What fails is tried again, but not at the end. */
async function run(make: () => Sealer): Promise<void> {
  let sealer: Sealer | undefined
  let reads = 0
  for (;;) {
    const isLast = finishing
    try {
      sealer ??= make()
      if (isLast) await sealer.finish()
      else {
        reads = (await sealer.poll()) && sealer.isBehind ? reads + 1 : 0
        await pauseAfter(reads)
      }
    } catch (error) {
      tell({ type: 'fault', cause: (error as Error).message })
      if (!isLast) await rest(RETRY_MS)
    }
    if (isLast) return
  }
}

/** @param reads without having reached the end. */
function pauseAfter(reads: number): Promise<void> {
  if (reads === 0) return rest(POLL_MS)
  return reads < PACED_READS ? rest(PAUSE_MS) : turn()
}

/** Resolves after that time, or when it is told to finish. */
function rest(ms: number): Promise<void> {
  if (finishing) return Promise.resolve()
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    wake = () => {
      clearTimeout(timer)
      resolve()
    }
  })
}

function tell(news: SealNews): void {
  parentPort?.postMessage(news)
}
