import { realPathOf } from '../../storage/append-file.ts'
import { replaceFile } from '../../storage/line-file.ts'
import { readRegularFile } from '../../storage/regular-file.ts'
import { closedSegments } from './trail-segments.ts'

const MAX_AHEAD_MS = 3_600_000
/** A clock that has jumped is believed after this time without another jump. */
const BELIEVED_AFTER_MS = 86_400_000

/** Time for irreversible actions. A jump forward moves it an hour at most, until a day passes without another jump. */
export class SteadyWallClock {
  readonly #wall: () => number
  readonly #steady: () => number
  /** A believed time, and the steady time then. */
  #believedMs: number
  #believedAtMs: number
  #offsetMs: number
  #offsetSinceMs: number

  constructor(
    knownMs: number | undefined,
    wall: () => number = Date.now,
    steady: () => number = () => performance.now(),
  ) {
    this.#wall = wall
    this.#steady = steady
    const [wallMs, steadyMs] = [wall(), steady()]
    this.#believedMs = knownMs !== undefined && wallMs > knownMs + MAX_AHEAD_MS ? knownMs : wallMs
    this.#believedAtMs = steadyMs
    this.#offsetMs = wallMs - steadyMs
    this.#offsetSinceMs = steadyMs
  }

  now(): number {
    return Math.min(this.#wall(), this.knownMs + MAX_AHEAD_MS)
  }

  /** A time that has certainly passed. */
  get knownMs(): number {
    const [wallMs, steadyMs] = [this.#wall(), this.#steady()]
    this.#follow(wallMs - steadyMs, steadyMs)
    return Math.min(wallMs, this.#believedMs + steadyMs - this.#believedAtMs)
  }

  /** How far the machine's clock is ahead of this one. */
  get doubtfulMs(): number {
    return Math.max(0, this.#wall() - this.now())
  }

  #follow(offsetMs: number, steadyMs: number): void {
    const hasJumped = Math.abs(offsetMs - this.#offsetMs) > MAX_AHEAD_MS
    if (!hasJumped && steadyMs - this.#offsetSinceMs < BELIEVED_AFTER_MS) return
    if (!hasJumped) {
      this.#believedMs = offsetMs + steadyMs
      this.#believedAtMs = steadyMs
    }
    this.#offsetMs = offsetMs
    this.#offsetSinceMs = steadyMs
  }
}

/** The file that holds the known time, such as `2026-11-22T15:16:02.123Z`. */
function fileOf(auditFile: string): string {
  return `${realPathOf(auditFile)}.clock`
}

/** Reads the time that an earlier process stored, or else the time of the last closed segment. */
export function readKnownTime(auditFile: string): number | undefined {
  try {
    const ms = Date.parse(readRegularFile(fileOf(auditFile)).toString().trim())
    if (!Number.isNaN(ms)) return ms
  } catch {
    // The time of the last closed segment is earlier, so nothing is removed too soon.
  }
  return closedSegments(auditFile).at(-1)?.closedMs
}

export function keepKnownTime(auditFile: string, ms: number): void {
  replaceFile(fileOf(auditFile), [`${new Date(ms).toISOString()}\n`])
}
