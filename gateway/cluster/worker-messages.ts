import type { TrailHandle } from '../audit/file/shared-trail.ts'
import type { ClientTable } from '../config/clients-file.ts'
import type { Settings } from '../config/settings.ts'
import type { TlsTexts } from '../tls/listener/tls-context.ts'
import type { SharedMemory } from './event-memory.ts'
import type { InitialState } from './replication.ts'

/** What a worker starts with, as of the moment when it took its seat. Plain data. */
export interface WorkerConfiguration extends InitialState {
  readonly name: string
  readonly seat: number
  readonly memory: SharedMemory
  readonly originMs: number
  readonly version: string
  /** With the ports that all workers listen on. */
  readonly settings: Settings
  readonly clients: ClientTable | undefined
  readonly tls: TlsTexts | undefined
  readonly secret: Uint8Array
  readonly trail: TrailHandle
}

/** From the main thread to a worker. */
export type WorkerCommand =
  | { readonly type: 'settings'; readonly settings: Settings }
  | { readonly type: 'clients'; readonly table: ClientTable }
  | { readonly type: 'tls'; readonly texts: TlsTexts }
  | { readonly type: 'drain'; readonly reason: string; readonly graceMs: number }
  | { readonly type: 'hurry' }
  /** The worker sends a report. */
  | { readonly type: 'report' }

/** From a worker to the main thread. */
export type WorkerMessage<Report> =
  | { readonly type: 'serving' }
  | { readonly type: 'report'; readonly report: Report }
