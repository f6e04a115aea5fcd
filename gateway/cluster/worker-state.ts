import { SharedJournal } from '../limits/journal/shared-journal.ts'
import { makeSharedState, type SharedState } from '../process/shared-state.ts'
import type { StartupConfiguration } from '../process/startup-configuration.ts'
import type { StoreWatch } from '../process/store-watch.ts'
import type { EventLog } from './event-log.ts'
import { follow, journalFlags, publishHit, shareState, takeFailures } from './replication.ts'
import type { WorkerConfiguration } from './worker-configuration.ts'

interface Joining {
  readonly startup: StartupConfiguration
  readonly watch: StoreWatch
  readonly eventLog: EventLog
}

/** What is counted and remembered, as a worker has it: the copy it was given, and what all have done since. */
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
  takeFailures(state, copy, eventLog.nowMs)
  follow(eventLog, state, {
    table: (changed, firstId, atMs) => {
      journal.numberFrom(firstId)
      state.limiter.replace(changed, atMs)
    },
    segment: (moved) => journal.moveTo(moved),
    // The thread that counted it has written it, or the main thread will.
    durableHit: () => {},
  })
  return state
}
