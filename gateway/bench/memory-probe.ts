import { renameSync, writeFileSync } from 'node:fs'
import { settledHeapBytes } from './settled-heap.ts'

// Loaded before the gateway (`--import`): on SIGUSR2 it writes the bytes in use on its heap into the file that
// BENCH_HEAP_FILE names.

const file = process.env.BENCH_HEAP_FILE as string
process.on('SIGUSR2', async () => {
  const bytes = await settledHeapBytes()
  writeFileSync(`${file}.new`, String(bytes))
  renameSync(`${file}.new`, file)
})
