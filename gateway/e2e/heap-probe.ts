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
 * Loaded before a program (`--import`), reports on SIGUSR2: how many bytes were allocated on its heap in all, also those freed
 * since; how many bytes its old space uses, which only a full collection frees; and how many full collections there were.
 */
process.on('SIGUSR2', () => {
  const { total_allocated_bytes: allocatedBytes } = getHeapStatistics() as Statistics
  const oldBytes = getHeapSpaceStatistics().find(
    ({ space_name }) => space_name === 'old_space',
  )?.space_used_size
  writeSync(2, `${JSON.stringify({ msg: 'heap', allocatedBytes, oldBytes, fullCollections })}\n`)
})
