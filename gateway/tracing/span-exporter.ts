import type { Post } from './span-post.ts'

/** `refused`: by the receiver. `undelivered`: not sent in time. `stopped`: the gateway stopped first. */
export const DROP_REASONS = ['queue_full', 'refused', 'undelivered', 'stopped'] as const

export interface ExporterOptions {
  readonly envelope: Envelope
  readonly post: Post
  readonly delayMs: number
  readonly maxQueue: number
  /** Default 1 s; doubles with each retry. */
  readonly firstRetryMs?: number
  readonly reports: ExportReports
}

export interface ExportReports {
  exported(spans: number): void
  dropped(reason: (typeof DROP_REASONS)[number], spans: number): void
  /** A batch was not sent, or not taken whole. */
  fault(cause: string): void
}

const FIRST_RETRY_MS = 1000
const LAST_RETRY_MS = 30_000
/** Drops a batch after this time, because the batch itself may make the receiver fail. */
const GIVE_UP_MS = 5 * 60_000

/** Sends spans in batches, one at a time, with retries where they may help. Drops spans when the queue is full. */
export class SpanExporter {
  readonly #options: ExporterOptions
  /** The last batch is being filled. */
  readonly #batches: SpanBatch[] = []
  readonly #maxBatches: number
  #waiting = 0
  /** A finished batch's memory for the next. Fresh memory would cause several full garbage collections a second. */
  #spare: Buffer | undefined = undefined
  readonly #aborted = new AbortController()
  #timer: NodeJS.Timeout | undefined = undefined
  #exporting: Promise<void> | undefined = undefined
  #wake: (() => void) | undefined = undefined
  #closing = false

  constructor(options: ExporterOptions) {
    this.#options = options
    this.#maxBatches = Math.max(2, Math.ceil(options.maxQueue / USUAL_SPANS))
  }

  /** False when the queue is full, so that a span's text would be dropped. */
  get hasRoom(): boolean {
    return this.#waiting < this.#options.maxQueue
  }

  add(text: string, spans: number): void {
    if (this.#closing || !this.hasRoom || !this.#keep(text, spans)) {
      this.drop(spans)
      return
    }
    this.#waiting += spans
    if (this.#batches.length > 1) this.#export()
    else this.#exportLater()
  }

  #keep(text: string, spans: number): boolean {
    if (this.#batches.at(-1)?.add(text, spans) === true) return true
    if (this.#batches.length === this.#maxBatches) return false
    const { envelope, maxQueue } = this.#options
    const memory = this.#spare ?? Buffer.allocUnsafeSlow(BATCH_BYTES)
    this.#spare = undefined
    const batch = new SpanBatch(envelope, Math.min(MAX_BATCH_SPANS, maxQueue / 2), memory)
    if (!batch.add(text, spans)) return false
    this.#batches.push(batch)
    return true
  }

  drop(spans: number): void {
    this.#options.reports.dropped(this.#closing ? 'stopped' : 'queue_full', spans)
  }

  /** Sends what waits, each batch once. Drops what is not sent within `withinMs` and before `hurry`. */
  async close(withinMs: number, hurry: Promise<void>): Promise<void> {
    this.#closing = true
    clearTimeout(this.#timer)
    const deadline = setTimeout(() => this.#aborted.abort(), withinMs)
    void hurry.then(() => this.#aborted.abort())
    this.#wake?.()
    while (this.#exporting !== undefined || this.#waiting > 0) {
      this.#export()
      await this.#exporting
    }
    clearTimeout(deadline)
  }

  #exportLater(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#export()
    }, this.#options.delayMs).unref()
  }

  #export(): void {
    this.#exporting ??= this.#exportAll().finally(() => {
      this.#exporting = undefined
      if (this.#waiting > 0 && !this.#closing) this.#exportLater()
    })
  }

  async #exportAll(): Promise<void> {
    do {
      const batch = this.#batches.shift()
      if (batch === undefined) return
      this.#waiting -= batch.spans
      await this.#deliver(batch)
    } while (this.#closing || this.#batches.length > 1)
  }

  async #deliver(batch: SpanBatch): Promise<void> {
    const { post, reports, firstRetryMs = FIRST_RETRY_MS } = this.#options
    const { spans } = batch
    const body = batch.body()
    const giveUpMs = performance.now() + GIVE_UP_MS
    let delayMs = firstRetryMs
    for (;;) {
      const posted = await post(body, this.#aborted.signal)
      if (posted.delivered) {
        // Not after a failure, because the failed post may still be sending from this memory.
        this.#spare = batch.memory
        const rejected = Math.min(posted.rejected, spans)
        reports.exported(spans - rejected)
        if (rejected > 0) reports.dropped('refused', rejected)
        if (posted.reason !== '') reports.fault(`the receiver says: ${posted.reason}`)
        return
      }
      reports.fault(posted.cause)
      // The wait is random, so that several gateways do not retry together. `Retry-After: 0` does not shorten it.
      const waitMs = Math.max(posted.retryAfterMs ?? 0, delayMs * (0.5 + Math.random()))
      delayMs = Math.min(delayMs * 2, LAST_RETRY_MS)
      const isLast = this.#closing || performance.now() + waitMs > giveUpMs
      if (isLast || !posted.mayRetry) {
        reports.dropped(!posted.mayRetry ? 'refused' : this.#closing ? 'stopped' : 'undelivered', spans)
        return
      }
      await this.#pause(waitMs)
    }
  }

  async #pause(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms).unref()
    this.#wake = resolve
    await promise
    clearTimeout(timer)
    this.#wake = undefined
  }
}

export interface Envelope {
  readonly head: string
  readonly tail: string
}

/** The most spans of a batch, as in OpenTelemetry's exporters. A small queue has batches of half its size. */
const MAX_BATCH_SPANS = 512
const BATCH_BYTES = 256 * 1024
/** How many spans of the usual length a buffer holds. Longer spans fill the queue earlier. */
const USUAL_SPANS = 256
const MAX_BYTES_OF_CHARACTER = 3

class SpanBatch {
  spans = 0
  readonly memory: Buffer
  readonly #tail: string
  readonly #maxSpans: number
  #used: number

  constructor({ head, tail }: Envelope, maxSpans: number, bytes: Buffer) {
    this.memory = bytes
    this.#maxSpans = maxSpans
    this.#tail = tail
    this.#used = bytes.write(head)
  }

  add(text: string, spans: number): boolean {
    const needed = (text.length + this.#tail.length + 1) * MAX_BYTES_OF_CHARACTER
    if (this.#used + needed > this.memory.length) return false
    if (this.spans > 0 && this.spans + spans > this.#maxSpans) return false
    const separated = this.spans === 0 ? text : `,${text}`
    this.#used += this.memory.write(separated, this.#used)
    this.spans += spans
    return true
  }

  /** Nothing can be added afterwards. */
  body(): Buffer {
    const end = this.#used + this.memory.write(this.#tail, this.#used)
    return this.memory.subarray(0, end)
  }
}
