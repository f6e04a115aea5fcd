import type { Lapse } from '../../edge/http1/tunnels/tunnels.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { peerOf } from '../../tls/clients/peer.ts'

/**
 * Why the caller's credential is no longer valid; undefined while it is.
 *
 * @param hadCertificate the connection's client certificate was good when the request came
 */
export function lapseOf(gateway: Gateway, exchange: Exchange, hadCertificate: boolean): Lapse | undefined {
  const { principal } = exchange
  if (principal !== undefined) {
    if (gateway.revocations.isRevoked(principal.session)) return 'session_revoked'
    if (principal.expiresAtMs !== undefined && gateway.clock() >= principal.expiresAtMs)
      return 'token_expired'
  }
  return hadCertificate && !hasGoodCertificate(gateway, exchange) ? 'certificate_refused' : undefined
}

export function hasGoodCertificate(gateway: Gateway, { secure }: Exchange): boolean {
  return secure !== undefined && peerOf(secure, gateway.tls.trust, gateway.clock())?.authorized === true
}
