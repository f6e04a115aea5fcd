/** Streams that the client may reset. Browsers cancel many when the user leaves a page. */
const RESETS = { burst: 200, perSecond: 20 }
/** Frames without progress, such as PING, SETTINGS, WINDOW_UPDATE, empty or padded DATA, trailers, refused streams. */
const NOISE = { burst: 1000, perSecond: 100 }
/** Noise that each frame of data allows: clients answer data with window updates and pings. */
const NOISE_PER_DATA = 4
/** Shorter DATA allows no noise: a client could open its window byte by byte. */
const SHORT_BYTES = 256
/** DATA shorter than an empty message of gRPC. */
const TINY = { burst: 1_000_000, perSecond: 10_000 }
const LEAST_MESSAGE_BYTES = 5
const NOISE_PER_REQUEST = 10
/** In a head with more fields each hundred counts as noise, because one byte can stand for a whole field. */
const USUAL_FIELDS = 100

/** A token bucket, full at first. */
class Allowance {
  readonly #burst: number
  readonly #perMs: number
  #left: number
  #atMs: number

  constructor({ burst, perSecond }: { readonly burst: number; readonly perSecond: number }, nowMs: number) {
    this.#burst = burst
    this.#perMs = perSecond / 1000
    this.#left = burst
    this.#atMs = nowMs
  }

  spend(nowMs: number, times = 1): boolean {
    if (this.#left < times) this.earn((nowMs - this.#atMs) * this.#perMs, nowMs)
    if (this.#left < times) return false
    this.#left -= times
    return true
  }

  earn(times: number, nowMs = this.#atMs): void {
    this.#left = Math.min(this.#burst, this.#left + times)
    this.#atMs = nowMs
  }
}

/** Bounds the work that a client may cause without progress of a request. */
export class ConnectionGuard {
  readonly #steadyClock: () => number
  readonly #resets: Allowance
  readonly #noise: Allowance
  readonly #tiny: Allowance

  constructor(steadyClock: () => number) {
    const nowMs = steadyClock()
    this.#steadyClock = steadyClock
    this.#resets = new Allowance(RESETS, nowMs)
    this.#noise = new Allowance(NOISE, nowMs)
    this.#tiny = new Allowance(TINY, nowMs)
  }

  /** @returns false when there are too many; so do the other `allows` methods */
  allowsReset(): boolean {
    return this.#resets.spend(this.#steadyClock())
  }

  allowsNoise(): boolean {
    return this.#noise.spend(this.#steadyClock())
  }

  /** Counts DATA without END_STREAM. */
  allowsShort(bytes: number): boolean {
    if (bytes === 0) return this.allowsNoise()
    return bytes >= LEAST_MESSAGE_BYTES || this.#tiny.spend(this.#steadyClock())
  }

  allowsFields(fields: number): boolean {
    return fields <= USUAL_FIELDS || this.#noise.spend(this.#steadyClock(), Math.floor(fields / USUAL_FIELDS))
  }

  /** @param isWhole true for a piece of a response that no window has cut */
  dataPassed(bytes: number, isWhole = false): void {
    if (isWhole || bytes >= SHORT_BYTES) this.#noise.earn(NOISE_PER_DATA)
  }

  requestBegun(): void {
    this.#noise.earn(NOISE_PER_REQUEST)
  }
}
