import type { Durability } from '../config/settings.ts'
import type { ProcessLock } from '../storage/process-lock.ts'
import type { ForeignWrite } from './seal-records.ts'

export interface TrailOptions extends TrailListeners {
  /** `-` is standard output. */
  readonly file: string
  /** `written` by default. `synced` needs a regular file. */
  readonly durability?: Durability
  readonly version?: string
  readonly now?: () => number
  /** How long responses wait for pending records. */
  readonly timeoutMs?: number
  readonly lock?: ProcessLock
  /** True when `sealWith` will follow. */
  readonly isSealed?: boolean
}

export interface TrailListeners {
  onFault(error: Error): void
  /** Called when records are in the operating system; with `synced`, on the disk. */
  onRecord(type: string, count: number): void
  /** Called when others have written to the trail. A start repeats the call if AUDIT_FOREIGN follows the file's AUDIT_START. */
  onForeign?(what: ForeignWrite): void
  onWritable?(): void
  onCrash?(): void
}
