import type { Duplex } from 'node:stream'
import { upgradeHead } from '../../edge/http1/handler.ts'
import type { Lapse } from '../../edge/http1/tunnels.ts'
import { isTrusted } from '../../edge/rules/client-address.ts'
import { networkOf } from '../../edge/rules/network.ts'
import { filterResponseHead } from '../../edge/rules/response-headers.ts'
import type { Field } from '../../edge/syntax/field.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { type Refusal, refusal } from '../../refusals.ts'
import { traceIdOf } from '../../tracing/trace.ts'
import { refuseAuthentication } from '../authorize.ts'
import { close } from '../close.ts'
import { verdictOn } from '../credentials/prove-certificate.ts'
import { withMandatory } from '../response/write-response.ts'

export const NO_TUNNEL_FREE = refusal('overloaded', {
  detail: 'The gateway has too many tunnels open.',
  headers: ['Retry-After', '1'],
})

/** Opens a tunnel after a 101. It lasts until either side ends it or the caller's credential is no longer valid. */
export function openTunnel(
  gateway: Gateway,
  exchange: Exchange,
  { fields, socket: upstream }: { readonly fields: readonly Field[]; readonly socket: Duplex },
): Refusal | undefined {
  const { route, requestId } = exchange
  const { tunnels } = gateway.load
  const ofProxy = isProxy(gateway, exchange)
  const caller = ofProxy ? `proxy ${exchange.address}` : networkOf(exchange.address)
  if (route === undefined || !tunnels.take(caller, ofProxy)) return NO_TUNNEL_FREE
  close(gateway, exchange, 101)
  const { lines } = filterResponseHead(fields, 101, exchange, route.forwarded)
  const traceId = traceIdOf(exchange)
  const hadCertificate = hasGoodCertificate(gateway, exchange)
  // While the 101 is held, an upstream that fails leaves nothing to switch to.
  const giveUp = () => exchange.res.breakOff()
  upstream.once('close', giveUp)
  // Node emits `close` after `error`.
  upstream.on('error', () => {})
  exchange.res.switch(upgradeHead(withMandatory(gateway, exchange, lines)), (downstream, unread) => {
    upstream.off('close', giveUp)
    if (downstream === undefined) {
      tunnels.release(caller)
      upstream.destroy()
      return
    }
    if (unread !== undefined) upstream.write(unread)
    tunnels.open(caller, downstream, upstream, {
      idleMs: route.idleTimeoutMs,
      totalMs: route.timeoutMs,
      lapsed: () => lapseOf(gateway, exchange, hadCertificate) ?? staleAuthentication(gateway, exchange),
      ended: (why) => {
        gateway.metrics.gateway_tunnels_ended_total.count(why)
        gateway.log.debug({ requestId, traceId, route: route.path, why }, 'a tunnel has ended')
      },
    })
  })
  return undefined
}

/** The authentication of the user must stay recent enough while the tunnel is open. */
function staleAuthentication(gateway: Gateway, exchange: Exchange): 'token_expired' | undefined {
  const isGood = exchange.route?.isShadow === true || refuseAuthentication(gateway, exchange) === undefined
  return isGood ? undefined : 'token_expired'
}

/** A proxy that names no client acts for many. */
function isProxy({ settings: { trustedProxies } }: Gateway, { address, viaTrustedProxy }: Exchange): boolean {
  return viaTrustedProxy && trustedProxies !== undefined && isTrusted(address, trustedProxies)
}

/** Undefined while the credential is valid. @param hadCertificate true if the request came with a good one */
export function lapseOf(gateway: Gateway, exchange: Exchange, hadCertificate: boolean): Lapse | undefined {
  const { principal } = exchange
  if (principal !== undefined) {
    if (gateway.revocations.isRevoked(principal.session)) return 'session_revoked'
    if (principal.expiresAtMs !== undefined && gateway.clock() >= principal.expiresAtMs)
      return 'token_expired'
  }
  return hadCertificate && !hasGoodCertificate(gateway, exchange) ? 'certificate_refused' : undefined
}

function hasGoodCertificate(gateway: Gateway, { secure }: Exchange): boolean {
  return secure !== undefined && verdictOn(gateway, secure)?.authorized === true
}
