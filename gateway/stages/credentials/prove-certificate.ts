import { quote } from '../../auth/tokens/quote.ts'
import { canonicalName } from '../../config/rules/distinguished-name.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import type { Principal } from '../../principal.ts'
import { type Refusal, refusal } from '../../refusals.ts'
import { subjectOf } from '../../tls/clients/certificate-names.ts'
import { isIssuedBy } from '../../tls/clients/client-issuers.ts'
import { type PeerCertificate, peerOf } from '../../tls/clients/peer.ts'

const CHALLENGE = ['WWW-Authenticate', 'Certificate realm="api"']

export function presentsCertificate(gateway: Gateway, { secure }: Exchange): boolean {
  return secure !== undefined && peerOf(secure, gateway.tls.trust, gateway.clock()) !== undefined
}

/**
 * Finds the client of a certificate. The response does not tell which check failed. Writes `principal` and
 * `needsCertificate`.
 */
export function proveCertificate(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const peer = certificateOf(gateway, exchange)
  if (peer?.authorized !== true) {
    const cause = peer === undefined ? 'no certificate' : `${peer.reason}: ${namesOf(peer)}`
    return refused(gateway, 'untrusted', cause)
  }
  exchange.principal = clientOf(gateway, peer)
  if (exchange.principal === undefined) {
    return refused(gateway, 'unknown_client', `no client has ${namesOf(peer)}`)
  }
  exchange.needsCertificate = true
  gateway.metrics.gateway_auth_decisions_total.count('mtls', 'accepted')
  return undefined
}

function refused(gateway: Gateway, outcome: string, cause: string): Refusal {
  gateway.metrics.gateway_auth_decisions_total.count('mtls', outcome)
  return refusal('invalid_certificate', { headers: CHALLENGE, cause })
}

/** As clients.json could give them. */
function namesOf({ subject, thumbprintHex, authorities }: PeerCertificate): string {
  const issuers = authorities.map((authority) => `, issuer ${quote(subjectOf(authority))}`).join('')
  return `subject ${quote(subject)}, thumbprint ${thumbprintHex}${issuers}`
}

/** The most exact name counts first. */
function clientOf(gateway: Gateway, peer: PeerCertificate): Principal | undefined {
  const { table } = gateway.clients
  const alone = gateway.tls.trust?.independent !== true
  const pinned = table.byThumbprint.get(peer.thumbprintHex)
  if (pinned !== undefined && isFromItsIssuer(gateway, peer, { principal: pinned, alone: true }))
    return pinned
  const subject = table.bySubject.size === 0 ? undefined : canonicalName(peer.subject)
  const named = [
    ...peer.sanUri.map((name) => table.bySanUri.get(name)),
    ...peer.sanDns.map((name) => table.bySanDns.get(name)),
    subject === undefined ? undefined : table.bySubject.get(subject),
  ]
  return named.find((principal) => principal && isFromItsIssuer(gateway, peer, { principal, alone }))
}

/** @param alone no other authority can issue such a certificate, so the entry need not name one */
function isFromItsIssuer(
  { clients }: Gateway,
  { authorities }: PeerCertificate,
  { principal, alone }: { readonly principal: Principal; readonly alone: boolean },
): boolean {
  const issuers = clients.table.issuers.get(principal.client ?? '')
  return issuers === undefined ? alone : isIssuedBy(issuers, authorities)
}

/** The client certificate with its present verdict. A client that this connection can never prove is asked to connect anew. */
export function certificateOf(gateway: Gateway, { secure, res }: Exchange): PeerCertificate | undefined {
  const peer = secure && peerOf(secure, gateway.tls.trust, gateway.clock())
  if (peer?.mayPassAnew === true) res.retireConnection()
  return peer
}
