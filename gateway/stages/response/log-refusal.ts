import { quote } from '../../auth/tokens/quote.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { REFUSALS, type Refusal, type RefusalCode } from '../../refusals.ts'
import { traceIdOf } from '../../tracing/trace.ts'

/** Time between two lines of one code, after a burst. */
const EVERY_MS = 1000
/** How many lines of one code may come at once. At `info` they are enough to debug one caller's attempts. */
const BURST = { warn: 1, info: 20 }
/** Untrusted text in a cause is already quoted and short. */
const MAX_CAUSE_LENGTH = 400

/**
 * Logs at `warn` when the gateway or the upstream is the cause, at `info` when the response does not tell the caller
 * everything. The lines of each code are limited; the next line says how many were left out.
 */
export function logRefusal(gateway: Gateway, exchange: Exchange, refusal: Refusal): void {
  const { code, cause, client } = refusal
  const level = REFUSALS[code].source !== 'downstream' ? 'warn' : cause === undefined ? 'debug' : 'info'
  writeLine(gateway, exchange, { code, cause, client, level, message: 'refused' })
}

export function logOverlooked(gateway: Gateway, exchange: Exchange, { code, cause, client }: Refusal): void {
  writeLine(gateway, exchange, { code, cause, client, level: 'info', message: 'would be refused' })
}

/** Logs that a browser will not send a request, or will withhold the response from its page. */
export function logBrowserRefusal(gateway: Gateway, exchange: Exchange, cause: string): void {
  writeLine(gateway, exchange, {
    code: undefined,
    cause,
    level: 'info',
    message: 'a browser refuses the request or its response',
  })
}

/** The cause for the console, with the client that the credential names. */
export function causeOf({ cause = '', client }: Refusal): string {
  return (client === undefined ? cause : `client ${quote(client)}: ${cause}`).slice(0, MAX_CAUSE_LENGTH)
}

interface Report {
  readonly code: RefusalCode | undefined
  readonly cause: string | undefined
  readonly client?: string | undefined
  readonly level: 'debug' | 'info' | 'warn'
  readonly message: string
}

function writeLine(
  gateway: Gateway,
  exchange: Exchange,
  { code, cause, client, level, message }: Report,
): void {
  const line = {
    requestId: exchange.requestId,
    traceId: traceIdOf(exchange),
    code,
    route: exchange.route?.path,
    [exchange.principal === undefined ? 'claimedClientId' : 'clientId']: client,
    cause: cause?.slice(0, MAX_CAUSE_LENGTH),
  }
  const unlogged = level === 'debug' ? undefined : takeLine(gateway, code, BURST[level])
  if (level === 'warn' && unlogged !== undefined)
    gateway.metrics.causes.set(`gateway_refusals_total ${code}`, line.cause ?? '')
  if (level === 'debug' || unlogged === undefined) gateway.log.debug(line, message)
  else gateway.log[level](unlogged === 0 ? line : { ...line, unlogged }, message)
}

/** @returns how many lines were left out; undefined: this line must be left out, too */
function takeLine(
  { load, steadyClock }: Gateway,
  code: RefusalCode | undefined,
  burst: number,
): number | undefined {
  const nowMs = steadyClock()
  const budget = load.refusalLog.getOrInsert(code, { left: burst, atMs: nowMs, unlogged: 0 })
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
