import type { Exchange } from '../exchange.ts'
import { MANDATORY_HEADERS } from '../http/mandatory-headers.ts'

/**
 * The one place where the head of an answer is written, whoever made the answer: what belongs on every answer is put
 * on here.
 *
 * @param headers flat list, not used again by the caller; may not name a mandatory header.
 */
export function writeHead(exchange: Exchange, status: number, headers: string[]): void {
  exchange.res.writeHead(status, withMandatory(exchange, headers))
}

/** The same list with the exchange's limit fields and the mandatory headers at its end. */
export function withMandatory(exchange: Exchange, headers: string[]): string[] {
  headers.push(...exchange.limitHeaders, ...MANDATORY_HEADERS, 'X-Request-ID', exchange.requestId)
  return headers
}
