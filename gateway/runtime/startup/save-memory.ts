import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { MemoryProfile } from '../../config/rules/memory-profiles.ts'
import { boundLargeBuffers, trimBuffers } from '../../edge/bodies/read-buffers.ts'

const TICK_MS = 10_000
const IDLE_SHARE = 0.01
const STARTED_MS = 1000
/** Buffers for large bodies, 256 KiB each. */
const LARGE_BUFFERS: Readonly<Record<MemoryProfile, number>> = { fast: 32, small: 4 }

interface SaverParts {
  /** Share of the time since the last call that the main thread has worked. */
  readonly utilization: () => number
  readonly trim: () => void
  /** Collects all garbage, and gives free memory back. Requests wait meanwhile. */
  readonly collect: (() => void) | undefined
}

/** @returns what to call at every tick */
export function memorySaver({ utilization, trim, collect }: SaverParts): () => void {
  let wasBusy = true
  return () => {
    trim()
    const isBusy = utilization() >= IDLE_SHARE
    // Collects once after each busy time: V8 itself collects only when there is something new.
    if (wasBusy && !isBusy) collect?.()
    wasBusy = isBusy
  }
}

export function saveMemory(profile: MemoryProfile): void {
  boundLargeBuffers(LARGE_BUFFERS[profile])
  let [lastMs, lastCpu] = [performance.now(), process.threadCpuUsage()]
  const tick = memorySaver({
    // CPU time, because the utilization of the event loop also counts the time in which a thread waits for a processor.
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
  // Otherwise V8 learns to allocate some objects of a socket as old, which keep alive all that they point to until the next full
  // collection. The flag must come before anything is compiled. As an option at the start it would cost the code cache.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // Few young objects survive, so one thread copies them faster. To wake helper threads takes milliseconds on one processor.
  setFlagsFromString('--no-parallel-scavenge')
  if (profile !== 'small') return
  // The Maglev compiler takes 10 MiB under load. `--no-maglev` at the start would cost the code cache: 20 ms and 3 MiB more.
  setTimeout(setFlagsFromString, STARTED_MS, '--no-maglev').unref()
}

let collector: NodeJS.GCFunction | undefined

/** `--expose-gc` at the start would cost the code cache: 20 ms in each thread. */
function collectGarbage(): void {
  if (collector === undefined) {
    setFlagsFromString('--expose-gc')
    collector = runInNewContext('gc') as NodeJS.GCFunction
    setFlagsFromString('--no-expose-gc')
  }
  collector({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}
