import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Several: once a turn of the event loop has freed objects, such as handles of closed sockets, the next frees more. */
const COLLECTIONS = 3
const BETWEEN_MS = 5

let collect: (() => void) | undefined

// V8 would drop unused code and its source, megabytes, in the middle of a measurement.
setFlagsFromString('--no-flush-bytecode')

/** Bytes on the heap and in its buffers after a full collection; not those of sockets and parsers. */
export async function settledHeapBytes(): Promise<number> {
  if (collect === undefined) {
    setFlagsFromString('--expose-gc')
    collect = runInNewContext('gc') as () => void
  }
  for (let i = 0; i < COLLECTIONS; i++) {
    // A weak reference keeps its target until the end of its turn.
    await sleep(BETWEEN_MS)
    collect()
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
