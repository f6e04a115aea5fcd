/** Steady milliseconds, equal in all threads. */
export function steadyMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n)
}

/** Shared by both threads. The main thread writes it only when sealing begins or goes on. */
export interface SealProgress {
  readonly buffer: SharedArrayBuffer
  sealedSize: number
  /** Unsealed lines in the thread, without AUDIT_SEAL. */
  unsealedRecords: number
  /** No unsealed record in the thread is older than this (`steadyMs`). Infinite: all are sealed. */
  oldestAtMs: number
  takenBytes: number
  /** As `TrailSeals.mends`. */
  mends: number
}

const NUMBERS = ['sealedSize', 'unsealedRecords', 'oldestAtMs', 'takenBytes', 'mends'] as const

export function sealProgress(shared?: SharedArrayBuffer): SealProgress {
  const buffer = shared ?? new SharedArrayBuffer(NUMBERS.length * Float64Array.BYTES_PER_ELEMENT)
  const floats = new Float64Array(buffer)
  const progress = { buffer } as SealProgress
  for (const [place, name] of NUMBERS.entries()) {
    const set = (value: number) => {
      floats[place] = value
    }
    Object.defineProperty(progress, name, { get: () => floats[place], set })
  }
  if (shared === undefined) progress.oldestAtMs = Number.POSITIVE_INFINITY
  // Makes `mends` even, because a thread that has died rewrites nothing.
  progress.mends += progress.mends % 2
  return progress
}
