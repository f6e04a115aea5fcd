import type { Gauge } from '../admin/metric-families.ts'
import type { Metrics } from '../admin/metrics.ts'
import { BackgroundThread, THREAD_LIMITS } from '../audit/background-thread.ts'
import { logDirectory } from '../audit/seals/tiles.ts'
import type { AttestJob, AttestNews } from '../audit/witness/attest-thread.ts'
import type { Progress } from '../audit/witness/paced-rounds.ts'
import type { WitnessesSettings } from '../config/witness-settings.ts'
import { RepeatedFault } from './repeated-fault.ts'
import type { StartupConfiguration } from './startup/read-configuration.ts'

const REPEAT_MS = 600_000
const FINISH_MS = 2000

/**
 * Starts a thread that gets the checkpoints of the audit log cosigned and time-stamped. During a restart two processes do this. A
 * witness that has cosigned a larger tree then refuses the older process, which goes on from the newer checkpoint on disk.
 */
export function attestTrail({ settings, log }: StartupConfiguration, metrics: Metrics) {
  const { file, witnesses, stamps } = settings.audit
  if (witnesses === undefined && stamps === undefined) return undefined
  const hear = {
    ...(witnesses && hearWitnesses(log, metrics, witnesses)),
    ...(stamps && hearStamps(log, metrics, stamps.everyMs)),
  }
  const job: AttestJob = { directory: logDirectory(file), witnesses, stamps }
  const onFault = (cause: string) =>
    log.error({ cause }, 'there is a fault with witnesses or time stamps of the audit log')
  const thread = new BackgroundThread<number, AttestNews>({
    script: 'witness/attest-thread',
    job,
    resourceLimits: THREAD_LIMITS,
    onNews: (news) => (hear[news.type] as ((news: AttestNews) => void) | undefined)?.(news),
    onFault,
  })
  thread.start()
  return {
    /** Gets the last checkpoint cosigned. @param hurry ends the wait */
    finish: async (hurry: Promise<void>) => {
      // The thread reports which witnesses were late.
      if (witnesses === undefined || (await thread.finish(FINISH_MS, FINISH_MS + 500, hurry))) return
      onFault('no witness is known to have signed the last checkpoint in time')
    },
  }
}

type Hear = { readonly [Type in AttestNews['type']]?: (news: Extract<AttestNews, { type: Type }>) => void }
type Log = StartupConfiguration['log']
type Failure = Extract<AttestNews, { type: 'witness-fault' }>['failure']

const FAILURES: readonly Failure[] = [
  'unreachable',
  'refused',
  'invalid',
  'unprovable',
  'conflict',
  'internal',
]

function hearWitnesses(log: Log, metrics: Metrics, { members, everyMs }: WitnessesSettings): Hear {
  const names = members.map(({ key }) => key.slice(0, key.indexOf('+')))
  const failures = metrics.gateway_audit_witness_failures_total
  for (const witness of names) for (const failure of FAILURES) failures.begin(witness, failure)
  const follow = expose(everyMs, {
    interval: metrics.gateway_audit_witness_interval_seconds,
    lag: metrics.gateway_audit_witness_lag_seconds,
    behind: metrics.gateway_audit_unwitnessed_records,
  })
  const faults = new Map<string, RepeatedFault>()
  return {
    witnessed: ({ progress }) => follow(progress),
    cosigned: ({ witness }) => {
      if (faults.delete(witness)) log.info({ witness }, 'the witness signs the audit log again')
    },
    'witness-fault': ({ witness = '', failure, cause }) => {
      if (names.includes(witness)) failures.count(witness, failure)
      const fault = faults.getOrInsertComputed(witness, () => new RepeatedFault(REPEAT_MS))
      const due = fault.due(cause)
      if (due === undefined) return
      const level = failure === 'conflict' ? 'error' : 'warn'
      log[level]({ witness, failure, ...due }, 'a witness did not sign the audit log')
    },
  }
}

function hearStamps(log: Log, metrics: Metrics, everyMs: number): Hear {
  const failures = metrics.gateway_audit_stamp_failures_total
  failures.begin()
  const follow = expose(everyMs, {
    interval: metrics.gateway_audit_stamp_interval_seconds,
    lag: metrics.gateway_audit_stamp_lag_seconds,
    behind: metrics.gateway_audit_unstamped_records,
  })
  const fault = new RepeatedFault(REPEAT_MS)
  let stamped = Number.POSITIVE_INFINITY
  return {
    stamped: ({ progress }) => {
      follow(progress)
      if (progress.attested > stamped && fault.end()) log.info('the audit log is time-stamped again')
      stamped = progress.attested
    },
    'stamp-fault': ({ cause }) => {
      failures.count()
      const due = fault.due(cause)
      if (due !== undefined) log.warn(due, 'the audit log is not time-stamped')
    },
  }
}

/** @param everyMs time between rounds @returns what to call with each progress */
function expose(
  everyMs: number,
  { interval, lag, behind }: Readonly<Record<'interval' | 'lag' | 'behind', Gauge<readonly []>>>,
): (progress: Progress) => void {
  let last: Progress = { sealed: 0, attested: 0, behindSinceMs: undefined }
  interval.set(everyMs / 1000)
  lag.read(() => (last.behindSinceMs === undefined ? 0 : Math.max(Date.now() - last.behindSinceMs, 0) / 1000))
  behind.read(() => Math.max(last.sealed - last.attested, 0))
  return (progress) => {
    last = progress
  }
}
