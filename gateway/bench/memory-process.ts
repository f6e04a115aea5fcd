import { fill } from './memory-fill.ts'
import { MEMORIES } from './memory-rooms.ts'

// One memory of the gateway in a process of its own, so that what is resident is its alone. `process.argv[2]` names it.

const memory = MEMORIES[process.argv[2] as keyof typeof MEMORIES]
const filled = await fill(memory, memory.offered)
process.send?.(filled, () => process.exit(0))
