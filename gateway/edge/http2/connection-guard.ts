/** Streams that the client resets. Browsers cancel many at once, when one navigates. */
const RESETS = { burst: 200, perSecond: 20 }
/** Frames that are no progress: PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty or late DATA, late heads, refused streams, unknown types. */
const NOISE = { burst: 1000, perSecond: 100 }
/** With what is sent and received some of it is usual: window updates, and pings that measure. */
const NOISE_PER_DATA = 4
/** Shorter DATA may be meant as work: sent because the client opens its window byte by byte. */
const SHORT_BYTES = 256
/** DATA shorter than an empty message of gRPC. No honest client sends it without end. */
const TINY = { burst: 1_000_000, perSecond: 10_000 }
const LEAST_MESSAGE_BYTES = 5
const NOISE_PER_REQUEST = 10
/** As many as a request may have. A byte of a head can mean one, so more of them count as more noise. */
const USUAL_FIELDS = 100

/** How often something may happen: a bucket that is full at first, and fills with time. */
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

  /** @returns false when not as much is left. */
  spend(nowMs: number, times = 1): boolean {
    if (this.#left < times) this.earn((nowMs - this.#atMs) * this.#perMs, nowMs)
    if (this.#left < times) return false
    this.#left -= times
    return true
  }

  /** Adds to what is left, because something has happened that justifies it. */
  earn(times: number, nowMs = this.#atMs): void {
    this.#left = Math.min(this.#burst, this.#left + times)
    this.#atMs = nowMs
  }
}

/** Bounds what a client may ask of us that serves no request. */
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

  /** @returns false when it was once too often */
  allowsReset(): boolean {
    return this.#resets.spend(this.#steadyClock())
  }

  /** @returns the same */
  allowsNoise(): boolean {
    return this.#noise.spend(this.#steadyClock())
  }

  /** One more frame of DATA that ends nothing. @returns the same */
  allowsShort(bytes: number): boolean {
    if (bytes === 0) return this.allowsNoise()
    return bytes >= LEAST_MESSAGE_BYTES || this.#tiny.spend(this.#steadyClock())
  }

  /** @param fields of one head @returns the same */
  allowsFields(fields: number): boolean {
    return fields <= USUAL_FIELDS || this.#noise.spend(this.#steadyClock(), Math.floor(fields / USUAL_FIELDS))
  }

  /** @param isWhole it is all that the service said at a time: no window has cut it */
  dataPassed(bytes: number, isWhole = false): void {
    if (isWhole || bytes >= SHORT_BYTES) this.#noise.earn(NOISE_PER_DATA)
  }

  requestBegun(): void {
    this.#noise.earn(NOISE_PER_REQUEST)
  }
}
