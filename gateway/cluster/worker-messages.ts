import type { TrailHandle } from '../audit/file/shared-trail.ts'
import type { LastGoodKeys } from '../auth/keys/jwks.ts'
import type { ClientTable } from '../config/clients-file.ts'
import type { Settings } from '../config/settings.ts'
import type {
  ListeningSocket,
  ListeningSockets,
  NamedSocket,
  PassedConnection,
} from '../process/restart/sockets.ts'
import type { DayKey } from '../tls/listener/ticket-keys.ts'
import type { TlsTexts } from '../tls/listener/tls-context.ts'
import type { Staple } from '../tls/stapling/stapler.ts'
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
  /** The response of OCSP that is sent. */
  readonly staple: Staple | undefined
  readonly secret: Uint8Array
  readonly trail: TrailHandle
  /** Last good signing keys of the process before, for the workers that take over from it. */
  readonly keys: readonly LastGoodKeys[]
  /** Of sessions of TLS, the same in all workers. */
  readonly tickets: DayKey
  /** Sockets that listen already and are this worker's from now on. */
  readonly open: ListeningSockets
}

/** A connection between threads: the one that gets it owns the descriptor. */
export type ConnectionOfThread = PassedConnection<number>

/** From the main thread to a worker. */
export type WorkerCommand =
  /** First. */
  | { readonly type: 'begin'; readonly configuration: WorkerConfiguration }
  | { readonly type: 'settings'; readonly settings: Settings }
  | { readonly type: 'clients'; readonly table: ClientTable }
  | { readonly type: 'tls'; readonly texts: TlsTexts }
  | { readonly type: 'staple'; readonly staple: Staple | undefined }
  | { readonly type: 'drain'; readonly reason: string; readonly graceMs: number }
  | { readonly type: 'hurry' }
  /** The worker sends a report. */
  | { readonly type: 'report' }
  | HandOverCommand

/** For `ServingThread` of a worker. */
export type HandOverCommand =
  | { readonly type: 'suspend' }
  | { readonly type: 'goOn'; readonly sockets: readonly ListeningSocket[] }
  | { readonly type: 'leave' }
  /** That connection is on its way. */
  | { readonly type: 'passed'; readonly id: number }
  | { readonly type: 'recorded'; readonly id: number; readonly fault: string | undefined }
  /** A connection of the process before. */
  | { readonly type: 'adopt'; readonly connection: ConnectionOfThread }

/** From a worker to the main thread. */
export type WorkerMessage<Report> =
  /** It can begin. */
  | { readonly type: 'loaded' }
  | { readonly type: 'serving' }
  | { readonly type: 'report'; readonly report: Report }
  | HandOverMessage

export type HandOverMessage =
  /** With the sockets that it listens on. */
  | { readonly type: 'listening'; readonly sockets: readonly NamedSocket<ListeningSocket>[] }
  | {
      readonly type: 'suspended'
      readonly keys: readonly LastGoodKeys[]
      readonly fault: string | undefined
    }
  /** `peer`: of `peerOfSocket`. If the worker dies, another connection may get the descriptor, and then the peer differs. */
  | {
      readonly type: 'connection'
      readonly id: number
      readonly connection: ConnectionOfThread
      readonly peer: string | undefined
    }
  | { readonly type: 'records'; readonly id: number; readonly lines: readonly string[] }
  | { readonly type: 'left' }
