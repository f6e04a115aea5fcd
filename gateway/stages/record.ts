import { requestRecord } from '../audit/records.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { type Refusal, refusal } from '../refusals.ts'

/**
 * Hands API_REQUEST to the audit trail; what cannot be recorded is not done. A user is named by `userId`, a machine
 * that acts for itself by `clientId`. Writes `requestLine`.
 */
export function record(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const { principal } = exchange
  const line = requestRecord({
    requestId: exchange.requestId,
    timestamp: exchange.timestamp,
    method: exchange.method,
    path: exchange.path,
    userId: principal?.subject,
    clientId: principal !== undefined && principal.subject === undefined ? principal.client : undefined,
    ip: exchange.address,
    userAgent: exchange.headers.userAgent,
  })
  const fault = gateway.trail.append(line)
  if (fault !== undefined) {
    return refusal('audit_unavailable', { headers: ['Retry-After', '5'], cause: fault.message })
  }
  exchange.requestLine = line
  return undefined
}
