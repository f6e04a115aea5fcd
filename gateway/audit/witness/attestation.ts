import { BackgroundThread, THREAD_LIMITS } from '../background-thread.ts'
import type { AttestJob, AttestNews } from './attest-thread.ts'

interface AttestationOptions extends AttestJob {
  onNews(news: AttestNews): void
  /** The thread has died and is started again, or did not end in time. */
  onFault(cause: string): void
}

/** A stop waits no longer for witnesses. */
const FINISH_MS = 2000

/**
 * Has checkpoints of the log cosigned and time-stamped, in a thread of its own that follows the log by its files: requests and
 * sealing never wait for it. During a restart two processes may do this: a witness that has cosigned a larger tree of the new
 * one then refuses the old one, which goes on with the checkpoint that stands there then.
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

  /** Has the last checkpoint cosigned, if witnesses respond at once. @param hurry ends the wait when it resolves */
  async finish(hurry: Promise<void>): Promise<void> {
    if (this.#options.witnesses === undefined) return
    // The thread tells before who did not sign in time.
    if (await this.#thread.finish(FINISH_MS, FINISH_MS + 500, hurry)) return
    this.#options.onFault('no witness is known to have signed the last checkpoint in time')
  }
}
