import { fill } from './memory-fill.ts'
import { MEMORIES } from './memory-rooms.ts'

// Measures one memory of the gateway in a process of its own, so that all resident memory is its own. `process.argv[2]` names it.

const memory = MEMORIES[process.argv[2] as keyof typeof MEMORIES]
const filled = await fill(memory, memory.offered)
process.send?.(filled, () => process.exit(0))
