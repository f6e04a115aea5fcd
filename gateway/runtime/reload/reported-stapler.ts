import { type Chain, type Staple, Stapler } from '../../tls/stapling/stapler.ts'
import type { Reports, Watching } from './reload-reports.ts'

/** Where responses of OCSP come from. */
export interface StapleSource extends Watching {
  /** Another certificate is in force. */
  replaceCertificate(chain: Chain): void
}

interface Stapled {
  /** File or responder, for the log. */
  readonly source: string
  readonly chain: Chain
  /** Puts it in force for new connections; undefined: none is sent. */
  readonly enforce: (staple: Staple | undefined) => void
}

/** A stapler whose verdicts go to log and metrics. */
export function reportedStapler(
  { clock, log, metrics }: Reports,
  { source, chain, enforce }: Stapled,
): Stapler {
  let until: string | undefined
  return new Stapler({
    chain,
    clock,
    onStaple: (staple) => {
      until = staple && new Date(staple.untilMs).toISOString()
      enforce(staple)
    },
    onVerdict: (fault) => {
      metrics.configReload('ocsp', fault === undefined ? 'success' : 'failure')
      if (fault === undefined) log.info({ source, until }, 'the response of OCSP is sent')
      else log.error({ source, cause: fault, until }, 'the response of OCSP cannot be sent')
    },
  })
}
