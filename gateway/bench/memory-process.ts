import { fill } from './memory-fill.ts'
import { MEMORIES } from './memory-rooms.ts'

// Measures the memory that `process.argv[2]` names, in a process that fills no other.

const memory = MEMORIES[process.argv[2] as keyof typeof MEMORIES]
const filled = await fill(memory, memory.offered)
process.send?.(filled, () => process.exit(0))
