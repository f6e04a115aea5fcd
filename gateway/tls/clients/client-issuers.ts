import { hash, type X509Certificate } from 'node:crypto'
import type { ClientTable } from '../../config/clients-file.ts'
import type { Fault } from '../../config/faults.ts'
import { canonicalName } from '../../config/rules/distinguished-name.ts'
import { subjectOf } from './certificate-names.ts'
import { type ClientTrust, isIssuer } from './trust.ts'

/**
 * Whether there are independent authorities. Each could then issue certificates with any name, so a name alone does not
 * identify a client. An authority and the one that issued it are not independent.
 */
export function areIndependent(authorities: readonly X509Certificate[]): boolean {
  const roots = authorities.filter(
    (authority) => !authorities.some((other) => other !== authority && isIssuer(authority, other)),
  )
  return roots.length > 1
}

/** Whether a client's entry names one of the authorities, by thumbprint or canonical subject. */
export function isIssuedBy(issuers: readonly string[], authorities: readonly X509Certificate[]): boolean {
  return authorities.some((authority) => {
    const subject = canonicalName(subjectOf(authority))
    return (
      issuers.includes(hash('sha256', authority.raw, 'hex')) ||
      (subject !== undefined && issuers.includes(subject))
    )
  })
}

/** A fault for each client that a certificate of any of several independent authorities would match. */
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
