import { Worker } from 'node:worker_threads'
import { THREAD_LIMITS } from '../thread-limits.ts'
import type { VouchJob, VouchNews } from './vouch-thread.ts'

interface VouchingOptions extends VouchJob {
  onNews(news: VouchNews): void
  /** The thread has died, and is started again. */
  onFault(cause: string): void
}

const SCRIPT = new URL(`./vouch-thread.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url)
const RESTART_MS = 60_000
/** A stop waits no longer for witnesses. */
const FINISH_MS = 2000

/**
 * Has checkpoints of the log cosigned and time-stamped, in a thread of its own that follows the log by its files: requests and
 * sealing never wait for it. It ends with the process. During a restart two processes may do this: a witness that has cosigned a
 * larger tree of the new one then refuses the old one, which goes on with the checkpoint that stands there then.
 */
export class Vouching {
  readonly #options: VouchingOptions
  #thread: Worker | undefined

  constructor(options: VouchingOptions) {
    this.#options = options
  }

  begin(): void {
    const { directory, witnesses, stamps, onNews, onFault } = this.#options
    const job: VouchJob = { directory, witnesses, stamps }
    const thread = new Worker(SCRIPT, { workerData: job, name: 'vouch', resourceLimits: THREAD_LIMITS })
    thread.unref()
    thread.on('message', onNews)
    thread.on('error', (error) => onFault(`the thread that asks them has died: ${(error as Error).message}`))
    thread.on('exit', () => {
      this.#thread = undefined
      setTimeout(() => this.begin(), RESTART_MS).unref()
    })
    this.#thread = thread
  }

  /** Has the last checkpoint cosigned, if witnesses respond at once. @param hurry ends the wait when it resolves */
  async finish(hurry: Promise<void>): Promise<void> {
    const thread = this.#thread
    if (thread === undefined || this.#options.witnesses === undefined) return
    const over = Promise.withResolvers<void>()
    thread.on('message', ({ type }: VouchNews) => type === 'finished' && over.resolve())
    thread.once('exit', over.resolve)
    thread.postMessage(FINISH_MS)
    // The thread tells before who did not sign in time.
    const deadline = setTimeout(() => {
      this.#options.onFault('no witness is known to have signed the last checkpoint in time')
      over.resolve()
    }, FINISH_MS + 500)
    await Promise.race([over.promise, hurry])
    clearTimeout(deadline)
  }
}
