import { renameSync, writeFileSync } from 'node:fs'
import { settledHeapBytes } from './settled-heap.ts'

// Loaded before the gateway (`--import`). On SIGUSR2 it writes the heap's bytes in use into the file BENCH_HEAP_FILE.

const file = process.env.BENCH_HEAP_FILE as string
process.on('SIGUSR2', async () => {
  const bytes = await settledHeapBytes()
  writeFileSync(`${file}.new`, String(bytes))
  renameSync(`${file}.new`, file)
})
