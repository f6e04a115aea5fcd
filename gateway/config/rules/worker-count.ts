import { availableParallelism } from 'node:os'
import schema from '../../../config/schemas/gateway.schema.json' with { type: 'json' }

export const MAX_WORKERS = schema.properties.workers.maximum

/** How many threads that is: `auto` is one for each core that this process may use. */
export function workerCount(workers: number | 'auto'): number {
  return workers === 'auto' ? Math.min(availableParallelism(), MAX_WORKERS) : workers
}
