import type { TLSSocket } from 'node:tls'
import { quote } from '../../auth/tokens/quote.ts'
import type { ClientTable } from '../../config/clients/clients-file.ts'
import { canonicalName } from '../../config/rules/distinguished-name.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import type { Principal } from '../../principal.ts'
import { type Refusal, refusal } from '../../refusals.ts'
import { organizationIdentifierOf, subjectOf } from '../../tls/clients/certificate-names.ts'
import { isIssuedBy } from '../../tls/clients/client-issuers.ts'
import { mayPassAnew, type PeerCertificate, peerOf } from '../../tls/clients/peer.ts'
import { psd2RolesOf } from '../../tls/clients/psd2-roles.ts'
import { countCredential } from './throttle-guesses.ts'

const CHALLENGE = ['WWW-Authenticate', 'Certificate realm="api"']

/** The response does not tell which check failed. */
export function proveCertificate(
  gateway: Gateway,
  exchange: Exchange,
  peer: PeerCertificate,
): Refusal | undefined {
  if (peer.isUnchecked === true) return revocationUnavailable(gateway, 'mtls', peer)
  if (!peer.authorized) return refused(gateway, 'untrusted', `${peer.reason}: ${namesOf(peer)}`)
  const { principal, outcome, cause } = findingOf(gateway, peer)
  if (principal === undefined) return refused(gateway, outcome, cause)
  exchange.principal = principal
  exchange.needsCertificate = true
  gateway.metrics.gateway_auth_decisions_total.count('mtls', 'accepted')
  return undefined
}

function refused(gateway: Gateway, outcome: string, cause: string): Refusal {
  const untrusted = refusal('invalid_certificate', { headers: CHALLENGE, cause })
  return countCredential(gateway, 'mtls', outcome, untrusted)
}

function namesOf({ subject, thumbprintHex, authorities }: PeerCertificate): string {
  const issuers = authorities.map((authority) => `, issuer ${quote(subjectOf(authority))}`).join('')
  return `subject ${quote(subject)}, thumbprint ${thumbprintHex}${issuers}`
}

type Finding =
  | { readonly principal: Principal; readonly outcome?: undefined; readonly cause?: undefined }
  | { readonly principal?: undefined; readonly outcome: string; readonly cause: string }
/** Findings for open connections. When authorities change, a connection gets another `PeerCertificate`. */
const FINDINGS = new WeakMap<PeerCertificate, { readonly table: ClientTable; readonly finding: Finding }>()

function findingOf(gateway: Gateway, peer: PeerCertificate): Finding {
  const { table } = gateway.clients
  const known = FINDINGS.get(peer)
  if (known?.table === table) return known.finding
  const principal = clientOf(gateway, peer)
  const finding =
    principal === undefined
      ? { outcome: 'unknown_client', cause: `no client has ${namesOf(peer)}` }
      : withRoles(table, principal, peer)
  FINDINGS.set(peer, { table, finding })
  return finding
}

function withRoles(table: ClientTable, principal: Principal, peer: PeerCertificate): Finding {
  if (!table.withPsd2Roles.has(principal.client ?? '')) return { principal }
  const roles = psd2RolesOf({ raw: peer.der })
  if (typeof roles === 'string') return { outcome: 'bad_statement', cause: `${roles}: ${namesOf(peer)}` }
  const scopes = new Set([...principal.scopes, ...roles.map((role) => `psd2:${role}`)])
  return { principal: Object.freeze({ ...principal, scopes, scope: [...scopes].join(' ') }) }
}

/** Tries the most exact name first. */
function clientOf(gateway: Gateway, peer: PeerCertificate): Principal | undefined {
  const { table } = gateway.clients
  const alone = gateway.tls.trust?.independent !== true
  const pinned = table.byThumbprint.get(peer.thumbprintHex)
  if (pinned !== undefined && isFromItsIssuer(gateway, peer, { principal: pinned, alone: true }))
    return pinned
  const subject = table.bySubject.size === 0 ? undefined : canonicalName(peer.subject)
  const organization =
    table.byOrganization.size === 0 ? undefined : organizationIdentifierOf({ raw: peer.der })
  const named = [
    ...peer.sanUri.map((name) => table.bySanUri.get(name)),
    ...peer.sanDns.map((name) => table.bySanDns.get(name)),
    subject === undefined ? undefined : table.bySubject.get(subject),
    organization === undefined ? undefined : table.byOrganization.get(organization),
  ]
  return named.find((principal) => principal && isFromItsIssuer(gateway, peer, { principal, alone }))
}

/** @param alone true when no other authority can issue such a certificate; then the client's entry needs no issuer */
function isFromItsIssuer(
  { clients }: Gateway,
  { authorities }: PeerCertificate,
  { principal, alone }: { readonly principal: Principal; readonly alone: boolean },
): boolean {
  const issuers = clients.table.issuers.get(principal.client ?? '')
  return issuers === undefined ? alone : isIssuedBy(issuers, authorities)
}

export function revocationUnavailable(
  gateway: Gateway,
  method: 'bearer' | 'mtls',
  { reason = '' }: PeerCertificate,
): Refusal {
  gateway.metrics.gateway_auth_decisions_total.count(method, 'revocation_unavailable')
  return refusal('revocation_unavailable', { headers: ['Retry-After', '5'], cause: reason })
}

/** Resolves when it is known whether the certificate was revoked. Undefined: there is nothing to wait for. */
export function whenChecked(gateway: Gateway, { secure }: Exchange): Promise<void> | undefined {
  const { ocsp, trust } = gateway.tls
  if (ocsp === undefined || secure === undefined) return undefined
  return ocsp.whenKnown(peerOf(secure, trust, gateway.clock()))
}

export function verdictOn({ tls, clock }: Gateway, secure: TLSSocket): PeerCertificate | undefined {
  const peer = peerOf(secure, tls.trust, clock())
  return peer === undefined || tls.ocsp === undefined ? peer : tls.ocsp.judge(peer)
}

/** Retires the connection when only a new one can prove the client. */
export function certificateOf(gateway: Gateway, { secure, res }: Exchange): PeerCertificate | undefined {
  if (secure === undefined) return undefined
  const peer = verdictOn(gateway, secure)
  if (mayPassAnew(secure, gateway.tls.trust)) res.retireConnection()
  return peer
}
