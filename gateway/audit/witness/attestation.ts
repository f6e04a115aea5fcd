import { BackgroundThread, THREAD_LIMITS } from '../background-thread.ts'
import type { AttestJob, AttestNews } from './attest-thread.ts'

interface AttestationOptions extends AttestJob {
  onNews(news: AttestNews): void
  onFault(cause: string): void
}

const FINISH_MS = 2000

/**
 * Has checkpoints cosigned and time-stamped in a thread that follows the files of the log. During a restart two processes do
 * this: a witness that has cosigned a larger tree refuses the older process, which continues with the checkpoint on disk.
 */
export class Attestation {
  readonly #options: AttestationOptions
  readonly #thread: BackgroundThread<number, AttestNews>

  constructor(options: AttestationOptions) {
    const { directory, witnesses, stamps, onNews, onFault } = options
    const job: AttestJob = { directory, witnesses, stamps }
    const script = 'witness/attest-thread'
    this.#options = options
    this.#thread = new BackgroundThread({ script, job, resourceLimits: THREAD_LIMITS, onNews, onFault })
  }

  begin(): void {
    this.#thread.start()
  }

  /** Has the last checkpoint cosigned, if witnesses respond at once. @param hurry ends the wait */
  async finish(hurry: Promise<void>): Promise<void> {
    if (this.#options.witnesses === undefined) return
    // The thread itself tells who was late.
    if (await this.#thread.finish(FINISH_MS, FINISH_MS + 500, hurry)) return
    this.#options.onFault('no witness is known to have signed the last checkpoint in time')
  }
}
