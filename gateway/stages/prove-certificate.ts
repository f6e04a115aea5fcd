import type { Principal } from '../auth/principal.ts'
import { quote } from '../auth/quote.ts'
import type { ClientTable } from '../config/clients.ts'
import { canonicalName } from '../config/distinguished-name.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { type Refusal, refusal } from '../refusals.ts'
import { type PeerCertificate, peerOf } from '../tls/peer.ts'

const CHALLENGE = ['WWW-Authenticate', 'Certificate realm="api"']

export function presentsCertificate(gateway: Gateway, { secure }: Exchange): boolean {
  return secure !== undefined && peerOf(secure, gateway.tls.trust, gateway.clock()) !== undefined
}

/**
 * Takes the caller for the client whose certificate its connection has proved. Which of the checks has failed stays
 * inside: to know it would help whoever has made the certificate. Writes `principal`.
 */
export function proveCertificate(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const peer = exchange.secure && peerOf(exchange.secure, gateway.tls.trust, gateway.clock())
  if (peer?.authorized !== true) {
    return refused(
      gateway,
      'untrusted',
      peer === undefined ? 'there is none' : `${peer.reason}: ${shown(peer)}`,
    )
  }
  exchange.principal = clientOf(gateway.clients.table, peer)
  if (exchange.principal === undefined) {
    return refused(gateway, 'unknown_client', `no client has ${shown(peer)}`)
  }
  gateway.metrics.authDecision('mtls', 'accepted')
  return undefined
}

function refused(gateway: Gateway, outcome: string, cause: string): Refusal {
  gateway.metrics.authDecision('mtls', outcome)
  return refusal('invalid_certificate', { headers: CHALLENGE, cause })
}

/** What clients.json could know it by. */
function shown({ subject, thumbprintHex }: PeerCertificate): string {
  return `subject ${quote(subject)}, thumbprint ${thumbprintHex}`
}

/** By the most exact name first. */
function clientOf(clients: ClientTable, peer: PeerCertificate): Principal | undefined {
  const known = clients.byThumbprint.get(peer.thumbprintHex)
  if (known !== undefined) return known
  for (const [names, table] of [
    [peer.sanUri, clients.bySanUri],
    [peer.sanDns, clients.bySanDns],
  ] as const) {
    for (const name of names) {
      const principal = table.get(name)
      if (principal !== undefined) return principal
    }
  }
  if (clients.bySubject.size === 0) return undefined
  const subject = canonicalName(peer.subject)
  return subject === undefined ? undefined : clients.bySubject.get(subject)
}
