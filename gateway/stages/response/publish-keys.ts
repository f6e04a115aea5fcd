import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { refusal } from '../../refusals.ts'
import { close } from '../close.ts'
import { refuse } from './refuse.ts'
import { linesOf, writeHead } from './write-response.ts'

const NOT_ALLOWED = refusal('method_not_allowed', { headers: ['Allow', 'GET, HEAD'] })

/** RFC 7517 section 5. */
export function publishKeys(gateway: Gateway, exchange: Exchange, jwks: Buffer): void {
  const { method, req, res } = exchange
  if (method !== 'GET' && method !== 'HEAD') {
    refuse(gateway, exchange, NOT_ALLOWED)
    return
  }
  // The rest of an unread body would be parsed as the next request.
  if (!req.complete || gateway.load.phase !== 'serving') res.keepAlive = false
  const contentLength = jwks.length
  const lines = linesOf(['Content-Type', 'application/jwk-set+json', 'Content-Length', String(contentLength)])
  close(gateway, exchange, 200)
  writeHead(gateway, exchange, 200, { lines, contentLength, dated: false })
  res.write(jwks)
  res.end()
}
