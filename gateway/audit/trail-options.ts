import type { Durability } from '../config/settings.ts'
import type { ProcessLock } from '../storage/process-lock.ts'
import type { TrailFollower } from './file/trail-file.ts'
import type { TrailListeners } from './trail-reports.ts'

export interface TrailOptions extends TrailListeners {
  /** `-` is standard output. */
  readonly file: string
  /** How far a record must have got before the request goes on; `written` by default. `synced` needs a regular file. */
  readonly durability?: Durability
  /** Version of the gateway, for AUDIT_START. */
  readonly version?: string
  /** Milliseconds since the epoch. */
  readonly now?: () => number
  /** How long responses wait for records that cannot be written, milliseconds. */
  readonly timeoutMs?: number
  /** Released when the trail is closed. */
  readonly lock?: ProcessLock
  /** `sealWith` will be called: the lines are kept for it from the first on. */
  readonly isSealed?: boolean
}

/** Seals the trail beside it. */
export interface TrailSeals extends TrailFollower {
  /** What it is told from now on stands behind the trail's `told`. */
  begin(): void
  /** Seals all that the file has, and ends until `begin`. @returns lines to append, which say so. */
  finish(): Promise<readonly string[]>
}
