import { once } from 'node:events'
import { type MessagePort, parentPort } from 'node:worker_threads'
import { EventLog } from './event-log.ts'
import type { SharedMemory } from './event-memory.ts'

/** How a test makes a worker end, or hang. */
export type Command = { readonly type: 'exit' | 'throw' | 'hang' | 'fill' | 'stop' | 'stay' }

interface Begin {
  readonly configuration: { readonly memory: SharedMemory; readonly seat: number; readonly failing?: boolean }
}

parentPort?.postMessage({ type: 'loaded' })
const [begin] = (await once(parentPort as MessagePort, 'message')) as [Begin]
const { memory, seat, failing } = begin.configuration
if (failing) throw new Error('cannot begin')
const eventLog = new EventLog({ memory, seat, clock: Date.now, onLost: () => process.exit(1) })
setInterval(() => eventLog.heartbeat(true), 5)
let silent = false

parentPort?.on('message', (message: Command | { readonly type: 'report' }) => {
  if (message.type === 'report') {
    if (!silent) parentPort?.postMessage({ type: 'report', report: `of seat ${seat}` })
  } else if (message.type === 'exit') process.exit(3)
  else if (message.type === 'throw') {
    setImmediate(() => {
      throw new Error('a bug')
    })
  } else if (message.type === 'hang') for (;;);
  else if (message.type === 'stay') silent = true
  else if (message.type === 'fill') fill()
  else if (!silent) process.exit(0)
})
parentPort?.postMessage({ type: 'serving' })

function fill(): void {
  const kept: object[] = []
  for (;;) kept.push({ at: kept.length, text: [`${kept.length}`] })
}
