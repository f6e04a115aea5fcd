import { SharedJournal } from '../limits/journal/shared-journal.ts'
import { makeSharedState, type SharedState } from '../process/shared-state.ts'
import type { StartupConfiguration } from '../process/startup-configuration.ts'
import type { StoreWatch } from '../process/store-watch.ts'
import type { EventLog } from './event-log.ts'
import { follow, journalFlags, publishHit, restoreFailures, shareState } from './replication.ts'
import type { WorkerConfiguration } from './worker-configuration.ts'

interface Joining {
  readonly startup: StartupConfiguration
  readonly watch: StoreWatch
  readonly eventLog: EventLog
}

/** A worker's copy of the shared state: what it was given, kept current by the events of all threads. */
export function joinState(
  { copy, rows, descriptor }: Pick<WorkerConfiguration, 'copy' | 'rows' | 'descriptor'>,
  { startup, watch, eventLog }: Joining,
): SharedState {
  const journal = new SharedJournal({
    copy: copy.counts,
    descriptor,
    flags: journalFlags(eventLog),
    onFailure: startup.settings.onJournalFailure,
    onHit: (hit, written) => publishHit(eventLog, hit, written),
  })
  const state = makeSharedState(startup, { journal, watch, sharing: shareState(eventLog, copy) })
  state.limiter.replace(rows)
  restoreFailures(state, copy, eventLog.nowMs)
  follow(eventLog, state, {
    table: (changed, firstId, atMs) => {
      journal.numberFrom(firstId)
      state.limiter.replace(changed, atMs)
    },
    segment: (moved) => journal.moveTo(moved),
    // The thread that counted the hit has written it, or the main thread will.
    durableHit: () => {},
  })
  return state
}
