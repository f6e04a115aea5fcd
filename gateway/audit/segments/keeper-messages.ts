import type { FileEnd, FilePlace } from '../file/trail-file.ts'
import type { AuditKeeping, KeeperTask } from './keeper.ts'

/** `workerData` of the thread. */
export interface KeeperData {
  /** The audit file. */
  readonly file: string
}

/** From the thread that owns the trail. */
export type ToKeeper =
  | { readonly type: 'round'; readonly keeping: AuditKeeping }
  | ({ readonly type: 'present' } & FileEnd & FilePlace)
  /** What became of a line; undefined: it is in the trail. */
  | { readonly type: 'recorded'; readonly error: string | undefined }

export type FromKeeper =
  /** Asks for `present`. */
  | { readonly type: 'ask' }
  | { readonly type: 'record'; readonly line: string }
  | { readonly type: 'info'; readonly fields: object; readonly message: string }
  | { readonly type: 'warn'; readonly fields: object; readonly message: string }
  | { readonly type: 'failed'; readonly task: KeeperTask; readonly cause: string }
  | { readonly type: 'done'; readonly task: KeeperTask }
  | { readonly type: 'unshipped'; readonly count: number; readonly oldestMs: number | undefined }
