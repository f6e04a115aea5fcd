/** Values below this are counted exactly; above it each doubling is divided into half as many buckets. */
const EXACT = 256
const EXACT_BITS = 8
const HALF = EXACT / 2
/** Values up to 2^32 µs, more than an hour. */
const BUCKETS = EXACT + (32 - EXACT_BITS) * HALF

/** Counts of a histogram, as they are sent from one process to another. */
export interface HistogramCounts {
  /** Pairs of bucket and count, flat; empty buckets left out. */
  readonly buckets: readonly number[]
  readonly max: number
}

/**
 * Latencies in whole microseconds, in buckets no wider than 1/128 of their value (the layout of HdrHistogram): constant
 * memory and constant time however many are recorded.
 */
export class Histogram {
  readonly #counts = new Float64Array(BUCKETS)
  #total = 0
  #max = 0

  /** @param valueUs rounded down; below 0 counts as 0, above 2^32 as 2^32. */
  record(valueUs: number): void {
    const value = Math.min(Math.max(Math.floor(valueUs), 0), 2 ** 32 - 1)
    const bucket = bucketOf(value)
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#total += 1
    if (value > this.#max) this.#max = value
  }

  get total(): number {
    return this.#total
  }

  get max(): number {
    return this.#max
  }

  /**
   * The smallest bucket bound that `share` (0 to 1) of the values do not exceed, never more than the greatest value; 0
   * when nothing was recorded.
   */
  quantile(share: number): number {
    const rank = Math.max(1, Math.ceil(share * this.#total))
    let seen = 0
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      seen += this.#counts[bucket] ?? 0
      if (seen >= rank) return Math.min(upperBoundOf(bucket), this.#max)
    }
    return 0
  }

  counts(): HistogramCounts {
    const buckets: number[] = []
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      const count = this.#counts[bucket] ?? 0
      if (count > 0) buckets.push(bucket, count)
    }
    return { buckets, max: this.#max }
  }

  /** Adds what another histogram has counted. */
  add({ buckets, max }: HistogramCounts): void {
    for (let i = 0; i + 1 < buckets.length; i += 2) {
      const bucket = buckets[i] as number
      const count = buckets[i + 1] as number
      this.#counts[bucket] = (this.#counts[bucket] ?? 0) + count
      this.#total += count
    }
    this.#max = Math.max(this.#max, max)
  }
}

function bucketOf(value: number): number {
  if (value < EXACT) return value
  const shift = 32 - Math.clz32(value) - EXACT_BITS
  return EXACT + (shift - 1) * HALF + ((value >>> shift) - HALF)
}

function upperBoundOf(bucket: number): number {
  if (bucket < EXACT) return bucket
  const shift = Math.floor((bucket - EXACT) / HALF) + 1
  const within = ((bucket - EXACT) % HALF) + HALF
  return (within + 1) * 2 ** shift - 1
}
