import type { Durability } from '../config/settings.ts'
import type { ProcessLock } from '../storage/process-lock.ts'
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
