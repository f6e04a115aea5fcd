import type { ThrottleSharing } from '../auth/throttle.ts'
import type { JournalFlags } from '../limits/journal/journal-options.ts'
import type { Hit } from '../limits/journal/journal-records.ts'
import type { CopiedCounts } from '../limits/journal/shared-journal.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import type { SharedState, StateSharing } from '../process/shared-state.ts'
import type { KeySharing } from '../storage/expiring-keys.ts'
import type { EventLog } from './event-log.ts'

/** Kinds of events. */
const HIT = 1
/** A hit of a durable row that is not in the journal yet. */
const OWED_HIT = 2
const TABLE = 3
const SEGMENT = 4
const FAILURE = 5
/** The key is in its file, or needs none. `+ OWED`: it still has to be written to the file. */
const REVOKED = 6
const DELIVERED = 8
const PROVED = 10
const OWED = 1

/** First shared flag of each store; see StoreFlags. */
const FLAGS = { journal: 0, revocations: 3, deliveries: 6, proofs: 9 } as const
const TORN = 0
const FAILING = 1
const EXPOSED = 2

type Keys = readonly (readonly [key: string, atMs: number])[]

/** The shared state, copied for a new thread. Plain data, so that it can be posted. */
export interface StateCopy {
  readonly counts: CopiedCounts
  readonly revoked: Keys
  readonly delivered: Keys
  readonly proved: Keys
  readonly failures: readonly (readonly [key: string, entry: readonly [atMs: number, count: number]])[]
  readonly blocked: Keys
}

/** What a thread does with events beyond its copy of the state. */
export interface Following {
  /** A new table is in force as of `atMs`; ids of new counters start at `firstId`. */
  table(rows: readonly LimitRow[], firstId: number, atMs: number): void
  /** The journal continues in that file. */
  segment(descriptor: number | undefined): void
  /** Another thread let a hit of a durable row through. `written`: it is in the journal. */
  durableHit(hit: Hit, written: boolean): void
}

/** @param copy the state of a new worker; undefined for the thread that reads it from the disk */
export function shareState(eventLog: EventLog, copy: StateCopy | undefined): StateSharing {
  const keys = (kind: number, flags: number, from: Keys | undefined): KeySharing => ({
    copy: from,
    enter: () => eventLog.enter(),
    leave: () => eventLog.leave(),
    catchUp: () => eventLog.catchUp(),
    publish: (text, atMs, written) =>
      eventLog.publish({ kind: written ? kind : kind + OWED, id: 0, atMs, text }),
    flags: {
      torn: eventLog.mark(flags + TORN),
      failing: eventLog.mark(flags + FAILING),
      exposed: eventLog.mark(flags + EXPOSED),
    },
  })
  const throttle: ThrottleSharing = {
    enter: () => eventLog.enter(),
    leave: () => eventLog.leave(),
    catchUp: () => eventLog.catchUp(),
    publish: (text, atMs) => eventLog.publish({ kind: FAILURE, id: 0, atMs, text }),
  }
  return {
    revocations: keys(REVOKED, FLAGS.revocations, copy?.revoked),
    deliveries: keys(DELIVERED, FLAGS.deliveries, copy?.delivered),
    proofs: keys(PROVED, FLAGS.proofs, copy?.proved),
    throttle,
    clock: () => eventLog.nowMs,
  }
}

/** Flags shared by all writers of the journal. */
export function journalFlags(eventLog: EventLog): JournalFlags {
  return { torn: eventLog.mark(FLAGS.journal + TORN), failing: eventLog.mark(FLAGS.journal + FAILING) }
}

/** Publishes a hit. Within a step. */
export function publishHit(eventLog: EventLog, { id, atMs, key }: Hit, written: boolean): void {
  eventLog.publish({ kind: written ? HIT : OWED_HIT, id, atMs, text: key })
}

/** Publishes a new limit table. Within a step. */
export function publishTable(eventLog: EventLog, rows: readonly LimitRow[], firstId: number): void {
  eventLog.publish({ kind: TABLE, id: firstId, atMs: eventLog.nowMs, text: writeRows(rows) })
}

/** Publishes the file in which the journal continues. Within a step. */
export function publishSegment(eventLog: EventLog, descriptor: number | undefined): void {
  eventLog.publish({ kind: SEGMENT, id: descriptor ?? -1, atMs: eventLog.nowMs, text: '' })
}

/** @throws RangeError for a table that is too large to be published */
export function checkPublishable(eventLog: EventLog, rows: readonly LimitRow[]): void {
  if (writeRows(rows).length <= eventLog.longestText) return
  throw new RangeError('the table is too large to be passed to the workers')
}

/** Applies the events of the other threads to the state of this one. */
export function follow(eventLog: EventLog, state: SharedState, following: Following): void {
  const { limiter, revocations, deliveries, proofs, throttle } = state
  for (const kind of [HIT, OWED_HIT]) {
    eventLog.on(kind, ({ id, atMs, text }) => {
      const hit = { id, atMs, key: text, count: 1 }
      if (limiter.count(hit)) following.durableHit(hit, kind === HIT)
    })
  }
  eventLog.on(TABLE, ({ id, atMs, text }) => following.table(readRows(text), id, atMs))
  eventLog.on(SEGMENT, ({ id }) => following.segment(id === -1 ? undefined : id))
  eventLog.on(FAILURE, ({ atMs, text }) => throttle?.apply(text, atMs))
  for (const owed of [0, OWED]) {
    eventLog.on(REVOKED + owed, ({ atMs, text }) => revocations.apply(text, atMs, owed === 0))
    eventLog.on(DELIVERED + owed, ({ atMs, text }) => deliveries.apply(text, atMs, owed === 0))
    eventLog.on(PROVED + owed, ({ atMs, text }) => proofs.apply(text, atMs, owed === 0))
  }
}

/** A copy of the state at this thread's position in the event log. */
export function copyState(state: SharedState, nowMs: number): StateCopy {
  const { limiter, revocations, deliveries, proofs, throttle, failures } = state
  const { records, hits } = limiter.copy()
  return {
    counts: { records, hits: [...hits] },
    revoked: [...revocations.entries()],
    delivered: [...deliveries.entries()],
    proved: [...proofs.entries()],
    failures: [...failures.entries(nowMs)],
    blocked: throttle?.blocked() ?? [],
  }
}

/** Restores the parts of a copy that are not passed to constructors. */
export function restoreFailures({ failures, throttle }: SharedState, copy: StateCopy, nowMs: number): void {
  for (const [key, entry] of copy.failures) failures.restore(key, entry, nowMs)
  throttle?.block(copy.blocked)
}

function writeRows(rows: readonly LimitRow[]): string {
  return JSON.stringify(rows.map((row) => ({ ...row, methods: row.methods && [...row.methods] })))
}

function readRows(text: string): LimitRow[] {
  const rows = JSON.parse(text) as (Omit<LimitRow, 'methods'> & { readonly methods?: readonly string[] })[]
  return rows.map((row) => ({ ...row, methods: row.methods && new Set(row.methods) }))
}
