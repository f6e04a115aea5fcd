import { fill } from './memory-fill.ts'
import { MEMORIES } from './memory-rooms.ts'

// Measures the memory `process.argv[2]` in its own process, to have all resident memory for itself.

const memory = MEMORIES[process.argv[2] as keyof typeof MEMORIES]
const filled = await fill(memory, memory.offered)
process.send?.(filled, () => process.exit(0))
