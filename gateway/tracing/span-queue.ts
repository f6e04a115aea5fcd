/** Around the spans of a batch. */
export interface Envelope {
  readonly head: string
  readonly tail: string
}

/** Spans per request, as OpenTelemetry's own exporters send them; but a batch goes out before the queue is full. */
const MAX_BATCH_SPANS = 512
const BATCH_BYTES = 256 * 1024
/** A buffer has room for so many spans of usual length. With longer ones the queue is full earlier. */
const USUAL_SPANS = 256
const MAX_BYTES_OF_CHARACTER = 3

/** The body of one request, as it grows. */
export class SpanBatch {
  spans = 0
  /** Memory of the batch, used again when the batch is over. */
  readonly memory: Buffer
  readonly #tail: string
  readonly #maxSpans: number
  #used: number

  /** @param bytes memory of its own, of BATCH_BYTES */
  constructor({ head, tail }: Envelope, maxSpans: number, bytes: Buffer) {
    this.memory = bytes
    this.#maxSpans = maxSpans
    this.#tail = tail
    this.#used = bytes.write(head)
  }

  /** @returns false when it has no room left */
  add(text: string, spans: number): boolean {
    const needed = (text.length + this.#tail.length + 1) * MAX_BYTES_OF_CHARACTER
    if (this.#used + needed > this.memory.length) return false
    if (this.spans > 0 && this.spans + spans > this.#maxSpans) return false
    const separated = this.spans === 0 ? text : `,${text}`
    this.#used += this.memory.write(separated, this.#used)
    this.spans += spans
    return true
  }

  /** The whole body. Nothing can be added afterwards. */
  body(): Buffer {
    const end = this.#used + this.memory.write(this.#tail, this.#used)
    return this.memory.subarray(0, end)
  }
}

/**
 * Spans that wait to be exported, as text in buffers of one size: so their memory is bounded exactly, about 1 KiB for each
 * span that may wait, and they keep nothing of a request alive.
 */
export class SpanQueue {
  readonly #envelope: Envelope
  readonly #maxSpans: number
  readonly #maxBatches: number
  readonly #full: SpanBatch[] = []
  #last: SpanBatch | undefined = undefined
  #waiting = 0
  /** Memory of a batch that is over. Fresh memory for each batch would start a garbage collection of everything several times a second. */
  #spare: Buffer | undefined = undefined

  /** @param maxSpans how many may wait */
  constructor(envelope: Envelope, maxSpans: number) {
    this.#envelope = envelope
    this.#maxSpans = maxSpans
    this.#maxBatches = Math.max(2, Math.ceil(maxSpans / USUAL_SPANS))
  }

  get spans(): number {
    return this.#waiting
  }

  get hasFullBatch(): boolean {
    return this.#full.length > 0
  }

  /** Whether a span may still find room: worth making its text. */
  get hasRoom(): boolean {
    return this.#waiting < this.#maxSpans
  }

  /** @returns false when there is no room */
  add(text: string, spans: number): boolean {
    if (!this.hasRoom) return false
    if (this.#last?.add(text, spans) !== true) {
      if (this.#last !== undefined && this.#full.length + 1 === this.#maxBatches) return false
      const batch = this.#newBatch()
      if (!batch.add(text, spans)) return false
      if (this.#last !== undefined) this.#full.push(this.#last)
      this.#last = batch
    }
    this.#waiting += spans
    return true
  }

  /** Takes the memory of a batch back. Its body must not be read any more. */
  giveBack(batch: SpanBatch): void {
    this.#spare = batch.memory
  }

  /** Takes the oldest batch that is full. */
  takeFull(): SpanBatch | undefined {
    const batch = this.#full.shift()
    if (batch !== undefined) this.#waiting -= batch.spans
    return batch
  }

  /** Takes the oldest batch, full or not. */
  take(): SpanBatch | undefined {
    const batch = this.takeFull() ?? this.#last
    if (batch !== undefined && batch === this.#last) {
      this.#last = undefined
      this.#waiting -= batch.spans
    }
    return batch
  }

  #newBatch(): SpanBatch {
    const memory = this.#spare ?? Buffer.allocUnsafeSlow(BATCH_BYTES)
    this.#spare = undefined
    return new SpanBatch(this.#envelope, Math.min(MAX_BATCH_SPANS, this.#maxSpans / 2), memory)
  }
}
