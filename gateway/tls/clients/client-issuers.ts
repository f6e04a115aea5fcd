import { hash, type X509Certificate } from 'node:crypto'
import type { ClientTable } from '../../config/client-table.ts'
import type { Fault } from '../../config/faults.ts'
import { canonicalName } from '../../config/rules/distinguished-name.ts'
import { subjectOf } from './certificate-names.ts'
import { type ClientTrust, isIssuer } from './trust.ts'

/**
 * Whether the authorities belong to more than one: then each may issue what the other has named, and a name alone says
 * too little. An authority that has issued another of them is of one house with it.
 */
export function areSeveral(authorities: readonly X509Certificate[]): boolean {
  const last = authorities.filter(
    (authority) => !authorities.some((other) => other !== authority && isIssuer(authority, other)),
  )
  return last.length > 1
}

/** Whether one of the authorities is one that a client's entry names, each in its one spelling. */
export function isIssuedBy(issuers: readonly string[], authorities: readonly X509Certificate[]): boolean {
  return authorities.some((authority) => {
    const subject = canonicalName(subjectOf(authority))
    return (
      issuers.includes(hash('sha256', authority.raw, 'hex')) ||
      (subject !== undefined && issuers.includes(subject))
    )
  })
}

/** Clients that could be anybody's: a certificate of any of several authorities would do for their name. */
export function clientIssuerFaults(
  file: string,
  { rows, issuers }: Pick<ClientTable, 'rows' | 'issuers'>,
  trust: Pick<ClientTrust, 'several'> | undefined,
): Fault[] {
  if (trust?.several !== true) return []
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
