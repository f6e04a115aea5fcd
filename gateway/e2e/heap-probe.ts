import { writeSync } from 'node:fs'
import { constants, PerformanceObserver } from 'node:perf_hooks'
import { getHeapSpaceStatistics, getHeapStatistics, type HeapInfo } from 'node:v8'

/** Missing in Node's types. */
type Statistics = HeapInfo & { readonly total_allocated_bytes: number }

let fullCollections = 0
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const { detail } = entry as unknown as { readonly detail: { readonly kind: number } }
    if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) fullCollections++
  }
}).observe({ entryTypes: ['gc'] })

/**
 * Loaded before a program (`--import`), this reports on SIGUSR2 all bytes ever allocated on its heap, even if freed
 * since; the bytes of its old space, which only a full collection frees; and the number of full collections.
 */
process.on('SIGUSR2', () => {
  const { total_allocated_bytes: allocatedBytes } = getHeapStatistics() as Statistics
  const oldBytes = getHeapSpaceStatistics().find(
    ({ space_name }) => space_name === 'old_space',
  )?.space_used_size
  writeSync(2, `${JSON.stringify({ msg: 'heap', allocatedBytes, oldBytes, fullCollections })}\n`)
})
