import type { TrailHandle } from '../audit/file/shared-trail.ts'
import type { ClientTable } from '../config/client-table.ts'
import type { Settings } from '../config/settings.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import type { TlsTexts } from '../tls/listener/tls-context.ts'
import type { SharedMemory } from './event-memory.ts'
import type { StateCopy } from './replication.ts'

/** What a worker starts with, as of the moment when it took its seat. Plain data. */
export interface WorkerConfiguration {
  readonly name: string
  readonly seat: number
  readonly memory: SharedMemory
  readonly originMs: number
  readonly version: string
  /** With the ports that all workers listen on. */
  readonly settings: Settings
  readonly rows: readonly LimitRow[]
  readonly clients: ClientTable | undefined
  readonly tls: TlsTexts | undefined
  readonly copy: StateCopy
  /** File descriptor of the limit journal. */
  readonly descriptor: number | undefined
  readonly nonceSecret: Uint8Array
  readonly trail: TrailHandle
}

/** Messages from the main thread to a worker. */
export type WorkerCommand =
  | { readonly type: 'clients'; readonly table: ClientTable }
  | { readonly type: 'tls'; readonly texts: TlsTexts }
  | { readonly type: 'drain'; readonly reason: string; readonly graceMs: number }
  | { readonly type: 'hurry' }
