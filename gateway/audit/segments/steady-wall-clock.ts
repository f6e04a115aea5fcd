import { realPathOf } from '../../storage/append-file.ts'
import { replaceFile } from '../../storage/line-file.ts'
import { readRegularFile } from '../../storage/regular-file.ts'
import { closedSegments } from './trail-segments.ts'

/** How far the clock of the machine may run ahead of the time that has passed. */
const MAX_AHEAD_MS = 3_600_000
/** A clock that has jumped is believed when it has gone on so long without another jump. */
const BELIEVED_AFTER_MS = 86_400_000

/**
 * The time of day for what cannot be undone: a clock that jumps forward, by years in the worst case, moves this one by an hour
 * at most. If it stays where it is for a day, it was right.
 */
export class SteadyWallClock {
  readonly #wall: () => number
  readonly #steady: () => number
  /** A time that is believed, and when that was by the steady clock. */
  #believedMs: number
  #believedAtMs: number
  /** Distance of the machine's clock to the steady one, since it has last jumped. */
  #offsetMs: number
  #offsetSinceMs: number

  /** @param knownMs until then time has passed for certain, before this process or in it; undefined: nothing is known */
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

  /** Milliseconds since the epoch. */
  now(): number {
    return Math.min(this.#wall(), this.knownMs + MAX_AHEAD_MS)
  }

  /** So far time has passed for certain: what a process after this one may begin with. */
  get knownMs(): number {
    const [wallMs, steadyMs] = [this.#wall(), this.#steady()]
    this.#follow(wallMs - steadyMs, steadyMs)
    return Math.min(wallMs, this.#believedMs + steadyMs - this.#believedAtMs)
  }

  /** By how much the clock of the machine is too far ahead to be believed now; 0 as a rule. */
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

/** Kept beside the trail, for the next process: `2026-11-22T15:16:02.123Z`. */
function fileOf(auditFile: string): string {
  return `${realPathOf(auditFile)}.clock`
}

/**
 * Until when time has passed for certain, as a process before has left it; otherwise when it has closed a segment last.
 *
 * @returns milliseconds since the epoch; undefined when there is neither
 */
export function readKnownTime(auditFile: string): number | undefined {
  try {
    const ms = Date.parse(readRegularFile(fileOf(auditFile)).toString().trim())
    if (!Number.isNaN(ms)) return ms
  } catch {
    // As if there were none: what is closed tells a time before, and so removes no more.
  }
  return closedSegments(auditFile).at(-1)?.closedMs
}

/** @throws Error of the system */
export function keepKnownTime(auditFile: string, ms: number): void {
  replaceFile(fileOf(auditFile), [`${new Date(ms).toISOString()}\n`])
}
