import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import type { Refusal } from '../../refusals.ts'
import { close } from '../close.ts'
import { recordAtEnd } from '../record.ts'
import { writeHead } from './write-response.ts'

/**
 * Ends an exchange with a 204 of the gateway itself.
 *
 * @param lines header lines, each with its CR LF
 * @returns a refusal when it cannot be recorded; nothing has been sent then
 */
export function answer(gateway: Gateway, exchange: Exchange, lines: string): Refusal | undefined {
  const refused = recordAtEnd(gateway, exchange)
  if (refused !== undefined) return refused
  // The rest of an unread body would be parsed as the next request.
  if (!exchange.req.complete || gateway.load.phase !== 'serving') exchange.res.keepAlive = false
  close(gateway, exchange, 204)
  writeHead(gateway, exchange, 204, { lines, contentLength: undefined, dated: false })
  exchange.res.end()
  return undefined
}
