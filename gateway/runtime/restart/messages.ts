import type { Deliveries, Delivery } from '../../auth/deliveries.ts'
import type { LastGoodKeys } from '../../auth/keys/jwks.ts'
import type { ReplayMemory } from '../../auth/replay.ts'
import type { FinishedKey } from '../../idempotency/key-table.ts'
import type { DayKey } from '../../tls/listener/ticket-keys.ts'
import type { ListenerName, PassedConnection } from './sockets.ts'

/** Both processes share these sockets and files, so a restart cannot change them. */
export type Places = Readonly<Record<string, string | number | undefined>>

/** State that is in no file. Plain data. Older gateways do not pass what is optional. */
export interface PassedState {
  readonly proofs: readonly (readonly [key: string, atMs: number])[]
  readonly failures: readonly (readonly [key: string, entry: readonly [atMs: number, count: number]])[]
  readonly blocked: readonly (readonly [key: string, untilMs: number])[]
  readonly keys: readonly LastGoodKeys[]
  /** How far the clock of limits and memories is ahead of the machine's monotonic clock. */
  readonly clockAheadMs?: number
  /** Idempotency keys in progress. */
  readonly begunKeys?: readonly string[]
  /** Keys of webhooks in progress. */
  readonly deliveries?: readonly string[]
  /** Key of TLS session tickets. */
  readonly tickets?: DayKey
}

/** Memories of accepted messages, by their names in `GatewayState`. */
export const MEMORIES = ['acceptedWebhooks', 'acceptedSignatures', 'proofs'] as const
type MemoryName = (typeof MEMORIES)[number]
export interface Memories extends Readonly<Record<MemoryName, Pick<ReplayMemory, 'otherProcess' | 'apply'>>> {
  readonly guards: { readonly deliveries: Pick<Deliveries, 'otherProcess' | 'end' | 'release'> }
}

/** A socket comes with `listener` and `connection`. */
export type ToSuccessor =
  | { readonly type: 'listener'; readonly name: ListenerName }
  /** The files are free: take over. */
  | { readonly type: 'state'; readonly state: PassedState }
  | ({ readonly type: 'connection' } & Omit<PassedConnection, 'socket'>)
  /** Audit records to write, and to acknowledge by `recorded`. */
  | { readonly type: 'records'; readonly id: number; readonly lines: readonly string[] }
  /** An outcome to write, and to acknowledge by `recorded`. */
  | { readonly type: 'key'; readonly id: number; readonly key: FinishedKey }
  | { readonly type: 'revoked'; readonly sid: string }
  /** A message that was accepted after the files were given up. */
  | { readonly type: 'accepted'; readonly memory: MemoryName; readonly digest: string }
  /** A webhook that was in progress when the files were given up has ended. */
  | { readonly type: 'delivered'; readonly delivery: Delivery; readonly isTaken: boolean }

/** A socket comes with `listener`. */
export type ToPredecessor =
  | { readonly type: 'faulty'; readonly faults: readonly string[] }
  | { readonly type: 'prepared'; readonly places: Places }
  /** A copy of the socket, with which the old process can listen again. */
  | { readonly type: 'listener'; readonly name: ListenerName }
  /** The new process serves: there is no way back. */
  | { readonly type: 'serving' }
  | { readonly type: 'recorded'; readonly id: number; readonly fault: string | undefined }
  | { readonly type: 'revoked'; readonly sid: string }
  | { readonly type: 'hurry' }
