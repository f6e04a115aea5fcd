import { Worker } from 'node:worker_threads'
import type { VouchJob, VouchNews } from './vouch-thread.ts'

export interface VouchingOptions extends VouchJob {
  onNews(news: VouchNews): void
  /** The thread has died, and is started again. */
  onFault(cause: string): void
}

const SCRIPT = new URL(`./vouch-thread.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url)
const RESTART_MS = 60_000
/** What others send can cost this thread its memory, and no other. */
const LIMITS = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 4 }

/**
 * Has checkpoints of the log cosigned and time-stamped, in a thread of its own that follows the log by its files: requests and
 * sealing never wait for it. It ends with the process; two processes, during a restart, do no harm to one another.
 */
export function beginVouching(options: VouchingOptions): void {
  const { directory, witnesses, stamps, onNews, onFault } = options
  const job: VouchJob = { directory, witnesses, stamps }
  const thread = new Worker(SCRIPT, { workerData: job, name: 'vouch', resourceLimits: LIMITS })
  thread.unref()
  thread.on('message', onNews)
  thread.on('error', (error) => onFault(`the thread that asks them has died: ${(error as Error).message}`))
  thread.on('exit', () => setTimeout(() => beginVouching(options), RESTART_MS).unref())
}
