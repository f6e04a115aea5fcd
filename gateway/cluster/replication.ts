import type { ThrottleSharing } from '../auth/throttle.ts'
import type { CopiedCounts } from '../limits/journal/joined-journal.ts'
import type { JournalFlags } from '../limits/journal/journal-options.ts'
import type { Hit } from '../limits/journal/journal-records.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import type { Holdings, HoldingsSharing } from '../process/shared-state.ts'
import type { KeySharing } from '../storage/expiring-keys.ts'
import type { Order } from './event-log.ts'

/** What the deeds of a gateway's threads are. */
const HIT = 1
/** A hit under a durable row that is not in the journal yet. */
const OWED_HIT = 2
const TABLE = 3
const SEGMENT = 4
const FAILURE = 5
/** The key is in its file, or belongs in none; `+ 1`: it is owed to the file. */
const REVOKED = 6
const DELIVERED = 8
const PROVED = 10
const OWED = 1

/** Flags that all threads see, for each store: see StoreFlags. */
const FLAGS = { journal: 0, revocations: 3, deliveries: 6, proofs: 9 } as const
const TORN = 0
const FAILING = 1
const EXPOSED = 2

type Keys = readonly (readonly [key: string, atMs: number])[]

/** Everything that a thread remembers, for one that comes to it. Plain data, so that it can be posted. */
export interface HoldingsCopy {
  readonly counts: CopiedCounts
  readonly revoked: Keys
  readonly delivered: Keys
  readonly proved: Keys
  readonly failures: readonly (readonly [key: string, entry: readonly [atMs: number, count: number]])[]
  readonly blocked: Keys
}

/** What a thread does with the deeds that are not about holdings alone. */
export interface Following {
  /** Another table is in force as of `atMs`; new counters have the ids from `firstId` on. */
  table(rows: readonly LimitRow[], firstId: number, atMs: number): void
  /** The journal goes on in that file. */
  segment(descriptor: number | undefined): void
  /** A hit under a durable row was let through elsewhere. `written`: it is in the journal. */
  durableHit(hit: Hit, written: boolean): void
}

/** @param copy what a worker begins with; undefined for the thread that reads it from the disk */
export function shareHoldings(order: Order, copy: HoldingsCopy | undefined): HoldingsSharing {
  const keys = (kind: number, flags: number, from: Keys | undefined): KeySharing => ({
    copy: from,
    enter: () => order.enter(),
    leave: () => order.leave(),
    catchUp: () => order.catchUp(),
    tell: (text, atMs, written) => order.tell({ kind: written ? kind : kind + OWED, id: 0, atMs, text }),
    flags: {
      torn: order.mark(flags + TORN),
      failing: order.mark(flags + FAILING),
      exposed: order.mark(flags + EXPOSED),
    },
  })
  const throttle: ThrottleSharing = {
    enter: () => order.enter(),
    leave: () => order.leave(),
    catchUp: () => order.catchUp(),
    tell: (text, atMs) => order.tell({ kind: FAILURE, id: 0, atMs, text }),
  }
  return {
    revocations: keys(REVOKED, FLAGS.revocations, copy?.revoked),
    deliveries: keys(DELIVERED, FLAGS.deliveries, copy?.delivered),
    proofs: keys(PROVED, FLAGS.proofs, copy?.proved),
    throttle,
    clock: () => order.nowMs,
  }
}

/** The flags for whoever writes to the journal. */
export function journalFlags(order: Order): JournalFlags {
  return { torn: order.mark(FLAGS.journal + TORN), failing: order.mark(FLAGS.journal + FAILING) }
}

/** Within a step: tells the others of a hit. */
export function tellHit(order: Order, { id, atMs, key }: Hit, written: boolean): void {
  order.tell({ kind: written ? HIT : OWED_HIT, id, atMs, text: key })
}

/** Within a step: tells the others of another table. */
export function tellTable(order: Order, rows: readonly LimitRow[], firstId: number): void {
  order.tell({ kind: TABLE, id: firstId, atMs: order.nowMs, text: writeRows(rows) })
}

/** Within a step: tells the others where the journal goes on. */
export function tellSegment(order: Order, descriptor: number | undefined): void {
  order.tell({ kind: SEGMENT, id: descriptor ?? -1, atMs: order.nowMs, text: '' })
}

/** Throws a RangeError for a table too large to be told. */
export function checkTellable(order: Order, rows: readonly LimitRow[]): void {
  if (writeRows(rows).length <= order.longestText) return
  throw new RangeError('the table is too large to be passed to the workers')
}

/** Does with the holdings of this thread what the others do with theirs. */
export function follow(order: Order, holdings: Holdings, following: Following): void {
  const { limiter, revocations, deliveries, proofs, throttle } = holdings
  for (const kind of [HIT, OWED_HIT]) {
    order.on(kind, ({ id, atMs, text }) => {
      const hit = { id, atMs, key: text, count: 1 }
      if (limiter.count(hit)) following.durableHit(hit, kind === HIT)
    })
  }
  order.on(TABLE, ({ id, atMs, text }) => following.table(readRows(text), id, atMs))
  order.on(SEGMENT, ({ id }) => following.segment(id === -1 ? undefined : id))
  order.on(FAILURE, ({ atMs, text }) => throttle?.learn(text, atMs))
  for (const owed of [0, OWED]) {
    order.on(REVOKED + owed, ({ atMs, text }) => revocations.learn(text, atMs, owed === 0))
    order.on(DELIVERED + owed, ({ atMs, text }) => deliveries.learn(text, atMs, owed === 0))
    order.on(PROVED + owed, ({ atMs, text }) => proofs.learn(text, atMs, owed === 0))
  }
}

/** A copy as of where this thread has read to. */
export function copyHoldings(holdings: Holdings, nowMs: number): HoldingsCopy {
  const { limiter, revocations, deliveries, proofs, throttle, failures } = holdings
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

/** What a limiter, a throttle cannot be made with. */
export function takeFailures({ failures, throttle }: Holdings, copy: HoldingsCopy, nowMs: number): void {
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
