import { setPriority } from 'node:os'
import { setImmediate as turn } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import type { SealNews } from '../seal-records.ts'
import { type PrivateSealKeys, sealKeyOf } from './seal-key.ts'
import { sealProgress, steadyMs } from './seal-progress.ts'
import { Sealer, type TrailNews } from './sealer.ts'

export interface SealJob {
  readonly file: string
  readonly progress: SharedArrayBuffer
  readonly directory: string
  readonly keys: PrivateSealKeys
  readonly origin: string
}

export type ToSealer = TrailNews | 'finish'

export type FromSealer = SealNews | { readonly type: 'fault'; readonly cause: string }

const RETRY_MS = 1000
/** Pause between steps, for requests that share the processor. */
const PAUSE_MS = 4
/** After this many steps in a row, the pauses are left out. */
const PACED_STEPS = 100
/** Nice value of the thread. Under full load it gets about a seventh of one processor. */
const PRIORITY = 8
const job = workerData as SealJob
const inbox: TrailNews[] = []
let sealer: Sealer | undefined
let finishing = false
let wake = () => {}

parentPort?.on('message', (message: ToSealer) => {
  if (message === 'finish') finishing = true
  else if (sealer === undefined) inbox.push(message)
  else sealer.hear(message)
  wake()
})
lowerPriority()
await run()
parentPort?.close()

function makeSealer(): Sealer {
  const made = new Sealer({
    file: job.file,
    directory: job.directory,
    key: sealKeyOf(job.keys, job.origin),
    progress: sealProgress(job.progress),
    now: steadyMs,
    onSealed: ({ size, root }) => tell({ type: 'AUDIT_SEAL', size, root: root.toString('base64') }),
    onGap: (gap) => tell({ type: 'AUDIT_SEAL_GAP', ...gap }),
    onReadBack: (records) => tell({ type: 'AUDIT_READ_BACK', records }),
    onFault: (cause) => tell({ type: 'fault', cause }),
  })
  for (const news of inbox.splice(0)) made.hear(news)
  return made
}

/** Puts requests first. Only Linux gives each thread its own priority. */
function lowerPriority(): void {
  try {
    if (process.platform === 'linux') setPriority(0, PRIORITY)
  } catch {
    // A sandbox may forbid it.
  }
}

/** Tries again after a failure, but not at the end. */
async function run(): Promise<void> {
  let steps = 0
  for (;;) {
    const isLast = finishing
    try {
      sealer ??= makeSealer()
      if (isLast) await sealer.finish()
      else {
        steps = (await sealer.poll()) ? steps + 1 : 0
        await pauseAfter(steps, sealer)
      }
    } catch (error) {
      tell({ type: 'fault', cause: (error as Error).message })
      if (!isLast) await rest(RETRY_MS, false)
    }
    if (isLast) return
  }
}

function pauseAfter(steps: number, { restMs }: Sealer): Promise<void> {
  if (steps === 0) return rest(restMs, true)
  return steps < PACED_STEPS ? rest(PAUSE_MS, false) : turn()
}

/** @param isWoken false: only `finish` ends the rest early */
function rest(ms: number, isWoken: boolean): Promise<void> {
  if (finishing || ms === 0) return Promise.resolve()
  return new Promise((resolve) => {
    const timer = ms === Number.POSITIVE_INFINITY ? undefined : setTimeout(resolve, ms)
    wake = () => {
      if (!isWoken && !finishing) return
      clearTimeout(timer)
      resolve()
    }
  })
}

function tell(news: FromSealer): void {
  parentPort?.postMessage(news)
}
