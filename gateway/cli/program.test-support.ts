import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const { TEST_GATEWAY } = process.env

/** The command line, for `node PROGRAM`. In a test run it is bundled, and starts with half of the CPU. */
export const PROGRAM = TEST_GATEWAY
  ? join(dirname(TEST_GATEWAY), 'cli/countersign.js')
  : fileURLToPath(new URL('countersign.ts', import.meta.url))
