import { hash, randomBytes, type X509Certificate } from 'node:crypto'
import type { Send } from '../../../http/outgoing/sender.ts'
import { readRegularFile } from '../../../storage/regular-file.ts'
import { parseCheckpoint } from '../../seals/checkpoint.ts'
import { parseNote } from '../../seals/signed-note.ts'
import { checkpointFile } from '../../seals/tiles.ts'
import { PacedRounds } from '../paced-rounds.ts'
import { type Progress, ProgressCount } from '../vouched-progress.ts'
import { keepStamp, lastStamped, stampsDirectory } from './stamp-files.ts'
import { stampRequest } from './stamp-request.ts'
import { checkStamp } from './stamp-response.ts'

interface StampReports {
  /** A checkpoint was stamped, or the log has gone on. */
  progress(progress: Progress): void
  fault(cause: string): void
}

interface StampRoundsOptions {
  /** Directory of the log. */
  readonly directory: string
  readonly send: Send
  readonly authorities: readonly X509Certificate[]
  readonly policy: string | undefined
  /** Between two stamps, at least. */
  readonly everyMs: number
  readonly firstRetryMs?: number
  readonly reports: StampReports
}

const NONCE_BYTES = 16
const HEADERS = { 'content-type': 'application/timestamp-query' }

/** Has checkpoints time-stamped (RFC 3161), at most one in `everyMs`, and keeps them with their stamps. */
export class StampRounds {
  readonly #options: StampRoundsOptions
  readonly #paced: PacedRounds
  readonly #count: ProgressCount
  readonly #aborted = new AbortController()

  constructor(options: StampRoundsOptions) {
    const { directory, everyMs, firstRetryMs } = options
    const last = lastStamped(stampsDirectory(directory))
    const round = () => this.#stamp()
    this.#options = options
    this.#count = new ProgressCount(last?.size ?? 0)
    this.#paced = new PacedRounds({
      everyMs,
      begunAgoMs: last?.ageMs,
      ...(firstRetryMs !== undefined && { firstRetryMs }),
      round,
      retry: round,
    })
  }

  /** A checkpoint of so many leaves stands on disk. */
  sealed(size: number): void {
    if (this.#count.sealed(size, Date.now())) this.#paced.want()
    this.#options.reports.progress(this.#count.progress)
  }

  /** Asks no more, and gives up what is under way. */
  close(): void {
    this.#paced.close()
    this.#aborted.abort()
  }

  async #stamp(): Promise<boolean> {
    const { directory, reports } = this.#options
    try {
      const checkpoint = readRegularFile(checkpointFile(directory))
      const { size } = parseCheckpoint(parseNote(checkpoint).text)
      this.#count.asked(size)
      const response = await this.#request(checkpoint)
      keepStamp(stampsDirectory(directory), size, checkpoint, response)
      this.#count.vouched()
      reports.progress(this.#count.progress)
      return true
    } catch (error) {
      if (!this.#aborted.signal.aborted) reports.fault((error as Error).message)
      return false
    }
  }

  /** @returns a response that has been checked. @throws Error that says what is wrong */
  async #request(checkpoint: Buffer): Promise<Buffer> {
    const { send, authorities, policy } = this.#options
    const digest = hash('sha256', checkpoint, 'buffer')
    const nonce = randomBytes(NONCE_BYTES)
    const { statusCode, body } = await send({
      method: 'POST',
      headers: HEADERS,
      body: stampRequest(digest, nonce, policy),
      signal: this.#aborted.signal,
    })
    if (statusCode !== 200) throw new Error(`the authority responds with status ${statusCode}`)
    checkStamp(body, { hash: digest, nonce, authorities, ...(policy !== undefined && { policy }) })
    return body
  }
}
