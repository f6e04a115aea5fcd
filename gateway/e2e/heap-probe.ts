import { writeSync } from 'node:fs'
import { constants, PerformanceObserver } from 'node:perf_hooks'
import { getHeapSpaceStatistics, getHeapStatistics, type HeapInfo } from 'node:v8'

/** Node's types do not know the name yet. */
type Statistics = HeapInfo & { readonly total_allocated_bytes: number }

let fullCollections = 0
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const { detail } = entry as unknown as { readonly detail: { readonly kind: number } }
    if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) fullCollections++
  }
}).observe({ entryTypes: ['gc'] })

/**
 * Loaded before a program (`--import`), tells on SIGUSR2 how many bytes were allocated on its heap since it began, also
 * those collected since; how many are used in its old space, where only a full collection takes anything away; and how many
 * of those there were.
 */
process.on('SIGUSR2', () => {
  const { total_allocated_bytes: allocatedBytes } = getHeapStatistics() as Statistics
  const oldBytes = getHeapSpaceStatistics().find(
    ({ space_name }) => space_name === 'old_space',
  )?.space_used_size
  writeSync(2, `${JSON.stringify({ msg: 'heap', allocatedBytes, oldBytes, fullCollections })}\n`)
})
