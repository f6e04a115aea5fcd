import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { type PeerCertificate, peerOf } from '../../tls/clients/peer.ts'

/**
 * The client certificate of the connection, with its present verdict; undefined without one. A client whose certificate this
 * connection can never prove is asked to connect anew.
 */
export function certificateOf(gateway: Gateway, { secure, res }: Exchange): PeerCertificate | undefined {
  const peer = secure && peerOf(secure, gateway.tls.trust, gateway.clock())
  if (peer?.mayPassAnew === true) res.retireConnection()
  return peer
}
