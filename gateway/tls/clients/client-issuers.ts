import { hash, type X509Certificate } from 'node:crypto'
import type { ClientTable } from '../../config/clients/clients-file.ts'
import type { Fault } from '../../config/faults.ts'
import { canonicalName } from '../../config/rules/distinguished-name.ts'
import { subjectOf } from './certificate-names.ts'
import { type ClientTrust, isIssuer } from './trust.ts'

/**
 * True unless the authorities form one line, in which each is issued by the one above it. Without such a line, several
 * could issue the same name, and a name alone identifies no client. Certificates with the same key are one authority.
 */
export function areIndependent(certificates: readonly X509Certificate[]): boolean {
  const keyOf = ({ publicKey }: X509Certificate) =>
    publicKey.export({ type: 'spki', format: 'der' }).toString('base64')
  const authorities = [...Map.groupBy(certificates, keyOf).values()]
  // In one line, no two authorities have the same number of others above them.
  const depths = new Set(authorities.map((authority) => issuersOf(authority, authorities).size))
  return depths.size < authorities.length
}

type Authority = readonly X509Certificate[]

function issuersOf(authority: Authority, authorities: readonly Authority[]): ReadonlySet<Authority> {
  const found = new Set([authority])
  // The iterator of a set also visits what is added meanwhile.
  for (const issued of found) {
    for (const other of authorities) {
      if (issued.some((certificate) => other.some((issuer) => isIssuer(issuer, certificate))))
        found.add(other)
    }
  }
  return found
}

export function isIssuedBy(issuers: readonly string[], authorities: readonly X509Certificate[]): boolean {
  return authorities.some((authority) => {
    const subject = canonicalName(subjectOf(authority))
    return (
      issuers.includes(hash('sha256', authority.raw, 'hex')) ||
      (subject !== undefined && issuers.includes(subject))
    )
  })
}

export function clientIssuerFaults(
  file: string,
  { rows, issuers }: Pick<ClientTable, 'rows' | 'issuers'>,
  trust: Pick<ClientTrust, 'independent'> | undefined,
): Fault[] {
  if (trust?.independent !== true) return []
  return rows.flatMap(({ id, mtls }, index) =>
    mtls === undefined || 'thumbprint' in mtls || issuers.has(id)
      ? []
      : [
          {
            file,
            path: `$.clients[${index}].mtls.issuer`,
            reason:
              'is missing: tls.clientCaFile holds several authorities, and a certificate of any of them would do for this client',
          },
        ],
  )
}
