import { JoinedJournal } from '../limits/journal/joined-journal.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import { type Holdings, makeHoldings } from '../process/shared-state.ts'
import type { Ground } from '../process/startup-configuration.ts'
import type { StoreWatch } from '../process/store-watch.ts'
import type { Order } from './event-log.ts'
import { follow, journalFlags, shareHoldings, takeFailures, tellHit } from './replication.ts'
import type { WorkerGround } from './worker-configuration.ts'

interface Joining {
  readonly ground: Ground
  readonly watch: StoreWatch
  readonly order: Order
  /** Told of another table as it comes into force. */
  readonly onTable: (rows: readonly LimitRow[]) => void
}

/** What is counted and remembered, as a worker has it: the copy it was given, and what all have done since. */
export function joinHoldings(
  { copy, rows, descriptor }: Pick<WorkerGround, 'copy' | 'rows' | 'descriptor'>,
  { ground, watch, order, onTable }: Joining,
): Holdings {
  const journal = new JoinedJournal({
    copy: copy.counts,
    descriptor,
    flags: journalFlags(order),
    onFailure: ground.settings.onJournalFailure,
    onHit: (hit, written) => tellHit(order, hit, written),
  })
  const holdings = makeHoldings(ground, { keeping: journal, watch, sharing: shareHoldings(order, copy) })
  holdings.limiter.replace(rows)
  takeFailures(holdings, copy, order.nowMs)
  follow(order, holdings, {
    table: (changed, firstId, atMs) => {
      journal.numberFrom(firstId)
      holdings.limiter.replace(changed, atMs)
      onTable(changed)
    },
    segment: (moved) => journal.moveTo(moved),
    // The thread that counted it has written it, or the main thread will.
    durableHit: () => {},
  })
  return holdings
}
