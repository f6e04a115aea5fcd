import { writeSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/**
 * Loaded before a program (`--import`), this reports on SIGUSR2 the bytes held after a full collection, with buffers.
 * Resident memory would include garbage.
 */
process.on('SIGUSR2', () => {
  collect()
  // A buffer's memory is freed one turn later.
  setImmediate(tell)
})

function tell(): void {
  collect()
  const { heapUsed, external } = process.memoryUsage()
  writeSync(2, `${JSON.stringify({ msg: 'held', bytes: heapUsed + external })}\n`)
}
