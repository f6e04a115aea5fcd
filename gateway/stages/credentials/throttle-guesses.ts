import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { limitKey } from '../../limits/limit-key.ts'
import { type Refusal, refusal } from '../../refusals.ts'
import { causeOf } from '../response/log-refusal.ts'

/** @param client that the credential names */
export function refuseGuessing(gateway: Gateway, exchange: Exchange, client?: string): Refusal | undefined {
  const blockedSeconds = gateway.throttle?.blockedSeconds(addressKey(exchange))
  if (blockedSeconds === undefined) return undefined
  return refusal('too_many_failures', {
    headers: ['Retry-After', String(blockedSeconds)],
    cause: `${exchange.address} has presented too many bad credentials`,
    client,
  })
}

export function countGuess(gateway: Gateway, exchange: Exchange): void {
  gateway.throttle?.failed(addressKey(exchange))
}

/** Counts an outcome, and keeps its latest cause for the console. */
export function countCredential<R extends Refusal | undefined>(
  { metrics }: Gateway,
  method: 'bearer' | 'hmac' | 'mtls' | 'signature',
  outcome: string,
  refused: R,
): R {
  metrics.gateway_auth_decisions_total.count(method, outcome)
  if (refused?.cause !== undefined)
    metrics.causes.set(`gateway_auth_decisions_total ${method} ${outcome}`, causeOf(refused))
  return refused
}

/** Guesses in shadow mode count apart, so that they do not block the address on enforced routes. */
function addressKey({ address, route }: Exchange): string {
  const key = limitKey('address', undefined, address)
  return route?.isShadow === true ? `shadow ${key}` : key
}
