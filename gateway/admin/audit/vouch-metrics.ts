import { Counter, Gauge, type Registry } from 'prom-client'
import type { Progress } from '../../audit/witness/vouched-progress.ts'

const WITNESS_FAILURES = ['unreachable', 'refused', 'invalid', 'unprovable', 'conflict', 'internal'] as const
type WitnessFailure = (typeof WITNESS_FAILURES)[number]

/** How far witnesses and time stamps have followed the log. Without them there are no such metrics. */
export function vouchMetrics(registers: Registry[]) {
  return {
    /** Exposes them from now on. @param names of the witnesses' keys. Called once */
    witnesses(names: readonly string[], everyMs: number) {
      const progress = follow(registers, {
        everyMs,
        interval: 'gateway_audit_witness_interval_seconds',
        intervalHelp:
          'How long apart witnesses are asked for their signatures at least: audit.witnesses.every.',
        lag: 'gateway_audit_witness_lag_seconds',
        lagHelp:
          'For how long there has been a checkpoint that not enough witnesses have signed; 0: there is none.',
        leaves: 'gateway_audit_unwitnessed_records',
        leavesHelp: 'Sealed records after the newest checkpoint that enough witnesses have signed.',
      })
      const failures = new Counter({
        name: 'gateway_audit_witness_failures_total',
        help: 'How often a witness was asked for its signature and gave none, by reason; conflict: it has seen another log.',
        labelNames: ['witness', 'failure'],
        registers,
      })
      for (const witness of names) {
        for (const failure of WITNESS_FAILURES) failures.inc({ witness, failure }, 0)
      }
      return {
        progress,
        failed: (witness: string, failure: WitnessFailure) => failures.inc({ witness, failure }),
      }
    },
    /** The same of time stamps. */
    stamps(everyMs: number) {
      const progress = follow(registers, {
        everyMs,
        interval: 'gateway_audit_stamp_interval_seconds',
        intervalHelp: 'How long apart time stamps are asked for at least: audit.stamps.every.',
        lag: 'gateway_audit_stamp_lag_seconds',
        lagHelp: 'For how long there has been a checkpoint without a time stamp; 0: there is none.',
        leaves: 'gateway_audit_unstamped_records',
        leavesHelp: 'Sealed records after the newest checkpoint that has a time stamp.',
      })
      const failures = new Counter({
        name: 'gateway_audit_stamp_failures_total',
        help: 'How often no time stamp could be had.',
        registers,
      })
      return { progress, failed: () => failures.inc() }
    },
  }
}

interface Followed {
  /** Between two checkpoints that are asked about: the lag of one that works grows to this. */
  readonly everyMs: number
  readonly interval: string
  readonly intervalHelp: string
  readonly lag: string
  readonly lagHelp: string
  readonly leaves: string
  readonly leavesHelp: string
}

function follow(registers: Registry[], followed: Followed) {
  const { everyMs, interval, intervalHelp, lag, lagHelp, leaves, leavesHelp } = followed
  let last: Progress = { sealed: 0, vouched: 0, behindSinceMs: undefined }
  new Gauge({ name: interval, help: intervalHelp, registers }).set(everyMs / 1000)
  new Gauge({
    name: lag,
    help: lagHelp,
    registers,
    collect() {
      const { behindSinceMs } = last
      this.set(behindSinceMs === undefined ? 0 : Math.max(Date.now() - behindSinceMs, 0) / 1000)
    },
  })
  new Gauge({
    name: leaves,
    help: leavesHelp,
    registers,
    collect() {
      this.set(Math.max(last.sealed - last.vouched, 0))
    },
  })
  return (progress: Progress) => {
    last = progress
  }
}
