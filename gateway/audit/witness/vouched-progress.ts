/** How far something beside the log has followed it. */
export interface Progress {
  /** Leaves of the newest checkpoint of the log. */
  readonly sealed: number
  /** Leaves of the newest one that the other side has vouched for. */
  readonly vouched: number
  /** Since when there has been another checkpoint, milliseconds since the epoch; undefined: there is none. */
  readonly behindSinceMs: number | undefined
}

/** Counts it. */
export class ProgressCount {
  #progress: Progress
  /** When the first checkpoint came after the one that is asked about. */
  #newerSinceMs: number | undefined
  #askedSize: number

  /** @param vouched leaves of the checkpoint that a run before left */
  constructor(vouched: number) {
    this.#progress = { sealed: 0, vouched, behindSinceMs: undefined }
    this.#askedSize = vouched
  }

  get progress(): Progress {
    return this.#progress
  }

  /** A checkpoint of so many leaves stands on disk. @returns whether it is news */
  sealed(size: number, nowMs: number): boolean {
    const { vouched, behindSinceMs } = this.#progress
    // A smaller one, after a backup was put back, is asked about too: the others will say what they have seen.
    const isNews = size !== this.#askedSize
    if (isNews) this.#newerSinceMs ??= nowMs
    this.#progress = {
      sealed: size,
      vouched,
      behindSinceMs: size !== vouched ? (behindSinceMs ?? nowMs) : undefined,
    }
    return isNews
  }

  /** That checkpoint goes out to be vouched for. */
  asked(size: number): void {
    this.#askedSize = size
    this.#newerSinceMs = undefined
  }

  /** The checkpoint that was asked about is vouched for. */
  vouched(): void {
    const { sealed } = this.#progress
    this.#progress = { sealed, vouched: this.#askedSize, behindSinceMs: this.#newerSinceMs }
  }
}
