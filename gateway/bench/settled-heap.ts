import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** What is freed in one turn of the event loop lets go of more in the next, such as handles of closed sockets. */
const COLLECTIONS = 3
const BETWEEN_MS = 5

let collect: (() => void) | undefined

// V8 drops code that has not run for some collections, and the source with it: megabytes, in the middle of a measurement.
setFlagsFromString('--no-flush-bytecode')

/**
 * Bytes in use on the heap and behind its buffers when everything that nobody refers to has been collected. Memory of
 * sockets and parsers outside of the heap is not among them.
 */
export async function settledHeapBytes(): Promise<number> {
  if (collect === undefined) {
    setFlagsFromString('--expose-gc')
    collect = runInNewContext('gc') as () => void
  }
  for (let i = 0; i < COLLECTIONS; i++) {
    // A weak reference holds on to its target until the turn in which it was made has ended.
    await sleep(BETWEEN_MS)
    collect()
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
