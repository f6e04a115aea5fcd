import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** What is freed in one turn of the event loop frees more in the next, such as handles of closed sockets. */
const COLLECTIONS = 3
const BETWEEN_MS = 5

let collect: (() => void) | undefined

// V8 drops code that has not run for some collections, and the source with it: megabytes, in the middle of a measurement.
setFlagsFromString('--no-flush-bytecode')

/**
 * Bytes in use on the heap and behind its buffers after a full collection. Memory of sockets and parsers
 * outside the heap is not included.
 */
export async function settledHeapBytes(): Promise<number> {
  if (collect === undefined) {
    setFlagsFromString('--expose-gc')
    collect = runInNewContext('gc') as () => void
  }
  for (let i = 0; i < COLLECTIONS; i++) {
    // A weak reference keeps its target until the end of the turn in which it was made.
    await sleep(BETWEEN_MS)
    collect()
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
