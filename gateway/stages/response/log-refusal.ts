import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { REFUSALS, type Refusal, type RefusalCode } from '../../refusals.ts'

/** Between two lines of one code, when there are many. */
const EVERY_MS = 1000
/** So many in quick succession are logged all the same: who looks for the mistake of one caller finds each of its tries. */
const BURST = { warn: 1, info: 20 }
/** Foreign text in a cause is quoted and short; this is for what nobody has thought of. */
const MAX_CAUSE_LENGTH = 400

/**
 * Tells the log why a request was refused, where the response does not say it: at `warn` when it is not the caller's
 * doing, at `info` when it is. Neither an upstream that is down nor a caller who tries thousands of times floods the log:
 * beyond a few lines in a second for each code the metric counts them, and the next line how many were left out.
 */
export function logRefusal(gateway: Gateway, exchange: Exchange, refusal: Refusal): void {
  const { code, cause } = refusal
  const level = REFUSALS[code].source !== 'downstream' ? 'warn' : cause === undefined ? 'debug' : 'info'
  const line = {
    requestId: exchange.requestId,
    code,
    route: exchange.route?.path,
    cause: cause?.slice(0, MAX_CAUSE_LENGTH),
  }
  const unlogged = level === 'debug' ? undefined : takeLine(gateway, code, BURST[level])
  if (level === 'debug' || unlogged === undefined) gateway.log.debug(line, 'refused')
  else gateway.log[level](unlogged === 0 ? line : { ...line, unlogged }, 'refused')
}

/** @returns how many of the code were not logged since the last line; undefined when this one is not to be either. */
function takeLine({ load, steadyClock }: Gateway, code: RefusalCode, burst: number): number | undefined {
  const nowMs = steadyClock()
  const budget = load.refusalLog.get(code) ?? { left: burst, atMs: nowMs, unlogged: 0 }
  load.refusalLog.set(code, budget)
  const earned = Math.floor((nowMs - budget.atMs) / EVERY_MS)
  budget.left = Math.min(burst, budget.left + earned)
  budget.atMs += earned * EVERY_MS
  if (budget.left === 0) {
    budget.unlogged += 1
    return undefined
  }
  const { unlogged } = budget
  budget.left -= 1
  budget.unlogged = 0
  return unlogged
}
