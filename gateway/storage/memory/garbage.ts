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

/**
 * Not by the option `--expose-gc` of Node: V8 refuses code that was kept without it, so that a start would cost 20 ms more, and that
 * of each thread.
 */
function collect(how: NodeJS.GCOptions): void {
  if (collector === undefined) {
    setFlagsFromString('--expose-gc')
    collector = runInNewContext('gc') as NodeJS.GCFunction
    setFlagsFromString('--no-expose-gc')
  }
  collector(how)
}
