import { writeSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/**
 * Loaded before a program (`--import`), tells on SIGUSR2 how many bytes it holds, buffers included: those that a full
 * collection leaves. Resident memory is no measure for a test: how much of it is garbage depends on when the collector
 * had time.
 */
process.on('SIGUSR2', () => {
  collect()
  // What is behind a buffer is given back a turn after the buffer.
  setImmediate(tell)
})

function tell(): void {
  collect()
  const { heapUsed, external } = process.memoryUsage()
  writeSync(2, `${JSON.stringify({ msg: 'held', bytes: heapUsed + external })}\n`)
}
