import { writeSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/**
 * Loaded before a program (`--import`), reports on SIGUSR2 how many bytes it holds after a full collection, buffers
 * included. Resident memory would not do: it includes garbage, more or less by chance.
 */
process.on('SIGUSR2', () => {
  collect()
  // The memory of a buffer is freed one turn after the buffer.
  setImmediate(tell)
})

function tell(): void {
  collect()
  const { heapUsed, external } = process.memoryUsage()
  writeSync(2, `${JSON.stringify({ msg: 'held', bytes: heapUsed + external })}\n`)
}
