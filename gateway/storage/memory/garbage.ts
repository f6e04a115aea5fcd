import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

let collector: NodeJS.GCFunction | undefined

/** Collects all garbage of this thread, and gives free memory back to the system. Stops the thread meanwhile. */
export function collectAll(): void {
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}

/**
 * Collects the young objects of this thread.
 *
 * The options of the process for young objects are those that requests need, and V8 has no others for a thread. A thread that leaves
 * much garbage and keeps little would touch all of that memory before V8 collects it.
 */
export function collectYoung(): void {
  collect({ type: 'minor', execution: 'sync' })
}

function collect(how: NodeJS.GCOptions): void {
  collector ??= exposed()
  collector?.(how)
}

/**
 * Not by the option `--expose-gc` of Node: V8 refuses code that was kept without it, so that a start would cost 20 ms more, and that
 * of each thread.
 *
 * @returns undefined when another thread has taken the option back at this moment.
 */
function exposed(): NodeJS.GCFunction | undefined {
  setFlagsFromString('--expose-gc')
  const found = runInNewContext('globalThis.gc') as NodeJS.GCFunction | undefined
  setFlagsFromString('--no-expose-gc')
  return found
}
