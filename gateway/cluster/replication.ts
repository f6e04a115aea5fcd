import type { ThrottleReplication } from '../auth/throttle.ts'
import type { Hit } from '../limits/journal/journal-records.ts'
import { type CopiedCounts, SharedJournal } from '../limits/journal/shared-journal.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import { makeSharedState, type SharedState, type StateReplication } from '../process/shared-state.ts'
import type { StartupConfiguration } from '../process/startup-configuration.ts'
import type { StoreWatch } from '../process/store-watch.ts'
import type { LogFlags } from '../storage/append-log.ts'
import type { KeyReplication } from '../storage/expiring-keys.ts'
import type { EndedSessionsCopy } from '../store/ended-sessions.ts'
import type { EventLog } from './event-log.ts'

/** Kinds of events. */
const HIT = 1
/** A hit of a durable row that is not in the journal yet. */
const UNWRITTEN_HIT = 2
const TABLE = 3
const SEGMENT = 4
const FAILURE = 5
/** The key is in its file, or needs none. `+ UNWRITTEN`: it still has to be written to the file. */
const REVOKED = 6
const DELIVERED = 8
const PROVED = 10
/** The beginning of a table, or the next piece of it; `TABLE` is the last one. */
const TABLE_PIECE = 12
const UNWRITTEN = 1

/** First flag of each store; see StoreFlags. */
const FLAGS = { journal: 0, revocations: 3, acceptedWebhooks: 6, proofs: 9 } as const
const TORN = 0
const FAILING = 1
const EXPOSED = 2

/** A table is published in pieces of this part of the longest text, so that large ones find room between other events. */
const PIECE_SHARE = 1 / 16

type Keys = readonly (readonly [key: string, atMs: number])[]

/** The shared state, copied for a new thread. Plain data, so that it can be posted. */
export interface StateCopy {
  readonly counts: CopiedCounts
  readonly revoked: Keys
  readonly delivered: Keys
  readonly proved: Keys
  readonly failures: readonly (readonly [key: string, entry: readonly [atMs: number, count: number]])[]
  readonly blocked: Keys
  /** Sessions that ended at any gateway of the shared store; undefined without one. */
  readonly endedSessions: EndedSessionsCopy | undefined
}

/** What a thread does with events besides applying them to its state. */
export interface LocalEffects {
  /** A new table is in force as of `atMs`; ids of new counters start at `firstId`. */
  table(rows: readonly LimitRow[], firstId: number, atMs: number): void
  /** The journal continues in that file. */
  segment(descriptor: number | undefined): void
  /** A session has ended at another thread. */
  revoked?(sid: string): void
  /** Another thread let a hit of a durable row through. `written`: it is in the journal. */
  durableHit(hit: Hit, written: boolean): void
}

/** @param copy the state of a new worker; undefined for the thread that reads it from the disk */
export function shareState(eventLog: EventLog, copy: StateCopy | undefined): StateReplication {
  const keys = (kind: number, flags: number, from: Keys | undefined): KeyReplication => ({
    copy: from,
    enter: () => eventLog.enter(),
    leave: () => eventLog.leave(),
    catchUp: () => eventLog.catchUp(),
    publish: (text, atMs, written) =>
      eventLog.publish({ kind: written ? kind : kind + UNWRITTEN, id: 0, atMs, text }),
    flags: {
      torn: eventLog.flag(flags + TORN),
      failing: eventLog.flag(flags + FAILING),
      exposed: eventLog.flag(flags + EXPOSED),
    },
  })
  const throttle: ThrottleReplication = {
    enter: () => eventLog.enter(),
    leave: () => eventLog.leave(),
    catchUp: () => eventLog.catchUp(),
    publish: (text, atMs) => eventLog.publish({ kind: FAILURE, id: 0, atMs, text }),
  }
  return {
    revocations: keys(REVOKED, FLAGS.revocations, copy?.revoked),
    acceptedWebhooks: keys(DELIVERED, FLAGS.acceptedWebhooks, copy?.delivered),
    proofs: keys(PROVED, FLAGS.proofs, copy?.proved),
    throttle,
    clock: () => eventLog.nowMs,
  }
}

/** Flags shared by all writers of the journal. */
export function journalFlags(eventLog: EventLog): LogFlags {
  return { torn: eventLog.flag(FLAGS.journal + TORN), failing: eventLog.flag(FLAGS.journal + FAILING) }
}

/** Publishes a new limit table. Within a step. */
export function publishTable(eventLog: EventLog, rows: readonly LimitRow[], firstId: number): void {
  const atMs = eventLog.nowMs
  const text = writeRows(rows)
  const length = Math.floor(eventLog.longestText * PIECE_SHARE)
  let at = 0
  for (; text.length - at > length; at += length) {
    eventLog.publish({ kind: TABLE_PIECE, id: 0, atMs, text: text.slice(at, at + length) })
  }
  eventLog.publish({ kind: TABLE, id: firstId, atMs, text: text.slice(at) })
}

/** Publishes the file in which the journal continues. Within a step. */
export function publishSegment(eventLog: EventLog, descriptor: number | undefined): void {
  eventLog.publish({ kind: SEGMENT, id: descriptor ?? -1, atMs: eventLog.nowMs, text: '' })
}

/** Publishes the end of a session in another process; no worker has to write it. Within a step. */
export function publishRevoked(eventLog: EventLog, sid: string): void {
  eventLog.publish({ kind: REVOKED, id: 0, atMs: eventLog.nowMs, text: sid })
}

/** Applies the events of the other threads to the state of this one. */
export function follow(eventLog: EventLog, state: SharedState, effects: LocalEffects): void {
  const { limiter, revocations, acceptedWebhooks, proofs, throttle } = state
  for (const kind of [HIT, UNWRITTEN_HIT]) {
    eventLog.on(kind, ({ id, atMs, text }) => {
      const hit = { id, atMs, key: text, count: 1 }
      if (limiter.count(hit)) effects.durableHit(hit, kind === HIT)
    })
  }
  let table = ''
  eventLog.on(TABLE_PIECE, ({ text }) => {
    table += text
  })
  eventLog.on(TABLE, ({ id, atMs, text }) => {
    const rows = readRows(table + text)
    table = ''
    effects.table(rows, id, atMs)
  })
  eventLog.on(SEGMENT, ({ id }) => effects.segment(id === -1 ? undefined : id))
  eventLog.on(FAILURE, ({ atMs, text }) => throttle.apply(text, atMs))
  for (const flag of [0, UNWRITTEN]) {
    eventLog.on(REVOKED + flag, ({ atMs, text }) => {
      revocations.apply(text, atMs, flag === 0)
      effects.revoked?.(text)
    })
    eventLog.on(DELIVERED + flag, ({ atMs, text }) => acceptedWebhooks.apply(text, atMs, flag === 0))
    eventLog.on(PROVED + flag, ({ atMs, text }) => proofs.apply(text, atMs, flag === 0))
  }
}

/** A copy of the state at this thread's position in the event log. */
export function copyState(state: SharedState, nowMs: number): StateCopy {
  const { limiter, revocations, acceptedWebhooks, proofs, throttle, failures } = state
  const { records, hits } = limiter.copy()
  return {
    counts: { records, hits: [...hits] },
    revoked: [...revocations.entries()],
    delivered: [...acceptedWebhooks.entries()],
    proved: [...proofs.entries()],
    failures: [...failures.entries(nowMs)],
    blocked: throttle.blocked(),
    endedSessions: state.member?.endedSessions(),
  }
}

/** What a worker builds its copy of the shared state from. Plain data. */
export interface InitialState {
  readonly copy: StateCopy
  readonly rows: readonly LimitRow[]
  /** File descriptor of the limit journal. */
  readonly descriptor: number | undefined
}

interface WorkerParts {
  readonly startup: StartupConfiguration
  readonly watch: StoreWatch
  readonly eventLog: EventLog
  readonly gatewayId: string
  readonly threadId: number
}

/** A worker's copy of the shared state, kept current by the events of all threads. */
export function joinState(
  { copy, rows, descriptor }: InitialState,
  { startup, watch, eventLog, gatewayId, threadId }: WorkerParts,
): SharedState {
  const journal = new SharedJournal({
    copy: copy.counts,
    descriptor,
    flags: journalFlags(eventLog),
    onFailure: startup.settings.onJournalFailure,
    onHit: ({ id, atMs, key }, written) =>
      eventLog.publish({ kind: written ? HIT : UNWRITTEN_HIT, id, atMs, text: key }),
  })
  const replication = shareState(eventLog, copy)
  const state = makeSharedState(startup, { journal, watch, replication, gatewayId, threadId })
  const { limiter, failures, throttle, member } = state
  if (copy.endedSessions !== undefined) member?.restoreEndedSessions(copy.endedSessions)
  limiter.replace(rows)
  for (const [key, entry] of copy.failures) failures.restore(key, entry, eventLog.nowMs)
  throttle.block(copy.blocked)
  follow(eventLog, state, {
    table: (changed, firstId, atMs) => {
      journal.numberFrom(firstId)
      limiter.replace(changed, atMs)
    },
    segment: (moved) => journal.moveTo(moved),
    // The thread that counted the hit has written it, or the main thread will.
    durableHit: () => {},
  })
  return state
}

function writeRows(rows: readonly LimitRow[]): string {
  return JSON.stringify(rows.map((row) => ({ ...row, methods: row.methods && [...row.methods] })))
}

function readRows(text: string): LimitRow[] {
  const rows = JSON.parse(text) as (Omit<LimitRow, 'methods'> & { readonly methods?: readonly string[] })[]
  return rows.map((row) => ({ ...row, methods: row.methods && new Set(row.methods) }))
}
