import { writeSync } from 'node:fs'
import { getHeapStatistics, type HeapInfo } from 'node:v8'

/** Node's types do not know the name yet. */
type Statistics = HeapInfo & { readonly total_allocated_bytes: number }

/**
 * Loaded before a program (`--import`), tells on SIGUSR2 how many bytes were allocated on its heap since it began, as a
 * line of the log. What was collected since counts too.
 */
process.on('SIGUSR2', () => {
  const { total_allocated_bytes: allocatedBytes } = getHeapStatistics() as Statistics
  writeSync(2, `${JSON.stringify({ msg: 'heap', allocatedBytes })}\n`)
})
