import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { MemoryProfile } from '../../config/rules/memory-profiles.ts'
import { boundLargeBuffers, trimBuffers } from '../../edge/bodies/read-buffers.ts'

const TICK_MS = 10_000
/** Share of the time below which a working gateway counts as idle. */
const IDLE_SHARE = 0.01
const STARTED_MS = 1000
/** Number of buffers for large bodies, 256 KiB each. */
const LARGE_BUFFERS: Readonly<Record<MemoryProfile, number>> = { fast: 32, small: 4 }

interface SaverParts {
  /** The share of the time since its last call in which the main thread has worked. */
  readonly utilization: () => number
  readonly trim: () => void
  /** Collects all garbage, and gives free memory back to the system. Stops the gateway meanwhile. */
  readonly collect: (() => void) | undefined
}

/** @returns what to call at every tick */
export function memorySaver({ utilization, trim, collect }: SaverParts): () => void {
  let wasBusy = true
  return () => {
    trim()
    const isBusy = utilization() >= IDLE_SHARE
    // Collects once after each busy time. V8 itself collects only when there is something new: never in an idle gateway.
    if (wasBusy && !isBusy) collect?.()
    wasBusy = isBusy
  }
}

/** Bounds the memory of the gateway as its profile says, and gives back what it does not need. */
export function saveMemory(profile: MemoryProfile): void {
  boundLargeBuffers(LARGE_BUFFERS[profile])
  let [lastMs, lastCpu] = [performance.now(), process.threadCpuUsage()]
  const tick = memorySaver({
    // Not the utilization of the event loop, in which a thread that waits for its turn on a busy machine seems to work.
    utilization: () => {
      const { user, system } = process.threadCpuUsage(lastCpu)
      const share = (user + system) / 1000 / (performance.now() - lastMs)
      lastMs = performance.now()
      lastCpu = process.threadCpuUsage()
      return share
    },
    trim: trimBuffers,
    collect: profile === 'small' ? collectGarbage : undefined,
  })
  setInterval(tick, TICK_MS).unref()
  // V8 would learn to allocate some objects of a socket as old, and these keep all that they point to alive until the next full
  // collection. Set it before anything is compiled. As an option at the start it would cost the code cache, like those below.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // Few objects survive a collection of young ones. Waking helper threads takes longer: milliseconds on one processor.
  setFlagsFromString('--no-parallel-scavenge')
  if (profile !== 'small') return
  // The work and code of Maglev take 10 MiB under load. With an option at the start V8 refuses its code cache: 20 ms and 3 MiB more.
  setTimeout(setFlagsFromString, STARTED_MS, '--no-maglev').unref()
}

let collector: NodeJS.GCFunction | undefined

/** Not an option at the start (`--expose-gc`): V8 then refuses its code cache, which costs 20 ms in each thread. */
function collectGarbage(): void {
  if (collector === undefined) {
    setFlagsFromString('--expose-gc')
    collector = runInNewContext('gc') as NodeJS.GCFunction
    setFlagsFromString('--no-expose-gc')
  }
  collector({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}
