import type { X509Certificate } from 'node:crypto'
import { timeFault } from '../../config/rules/certificate-times.ts'
import type { PemBlock } from '../listener/pem.ts'
import { type Findings, readBlocks, readCertificate } from '../listener/server-certificate.ts'
import { subjectOf } from './certificate-names.ts'
import { covers } from './list-scope.ts'
import { type RevocationList, readRevocationList, tieOf, UnusableList } from './revocation-list.ts'
import { isIssuer } from './trust.ts'

interface FileCheck {
  readonly file: string
  readonly nowMs: number
  readonly findings: Findings
}

interface ListCheck extends FileCheck {
  readonly authorities: readonly X509Certificate[]
}

export function readAuthorities(text: string, check: FileCheck): readonly X509Certificate[] | undefined {
  const { file, nowMs, findings } = check
  const authorities = readBlocks(text, check, readCertificate)
  if (authorities === undefined) return undefined
  for (const [index, authority] of authorities.entries()) {
    const path = `certificate ${index + 1}`
    const name = subjectOf(authority)
    if (!authority.ca) {
      findings.fault({ file, path, reason: `is not of a certificate authority (${name})` })
    } else if (!authorities.some((issuer) => isIssuer(issuer, authority))) {
      // Node's server accepts no partial chains, so it would refuse every client of this authority.
      const reason = `is of an intermediate authority (${name}): the file must also hold its issuers, up to the root`
      findings.fault({ file, path, reason })
    }
    const reasonAt = (atMs: number) => timeFault(authority, atMs)
    findings.date({ file, path, owner: authority.subject, isSpare: true, reasonAt }, nowMs)
  }
  return authorities
}

export function readRevocationLists(text: string, check: ListCheck): readonly RevocationList[] | undefined {
  const { file, nowMs, findings } = check
  const lists = readBlocks(text, check, readList)
  if (lists === undefined) return undefined
  checkSigners(lists, check)
  for (const [index, list] of lists.entries()) {
    const reasonAt = (atMs: number) => listTimeFault(list, atMs)
    const owner = list.issuer + (list.scope?.key ?? '')
    const place = { file, path: `list ${index + 1}`, owner }
    findings.date({ ...place, isSpare: false, issuedMs: list.thisUpdateMs, reasonAt }, nowMs)
  }
  return lists
}

function readList({ label, der }: PemBlock): RevocationList | string {
  if (label !== 'X509 CRL') return `must be an X509 CRL, but is a ${label}`
  try {
    return readRevocationList(der)
  } catch (error) {
    return error instanceof UnusableList ? error.message : 'is not a certificate revocation list'
  }
}

/** Finds authorities without a list: once there is any list, OpenSSL refuses the certificates that they issued. */
function checkSigners(lists: readonly RevocationList[], { file, findings, authorities }: ListCheck): void {
  const ties = lists.map((list) => authorities.map((authority) => tieOf(list, authority)))
  for (const [index, row] of ties.entries()) {
    const name = `${file}: list ${index + 1}`
    if (row.includes('proved')) continue
    if (row.includes('named'))
      findings.warn(`${name} is signed with an algorithm that is not checked at load`)
    // The list may belong to an intermediate authority whose certificate the clients send.
    else findings.warn(`${name} is signed by none of the client authorities`)
  }
  for (const [index, authority] of authorities.entries()) {
    const refused = `${subjectOf(authority)}: every client of it would be refused`
    if (ties.every((row) => row[index] === 'none'))
      findings.fault({ file, path: '$', reason: `has no list of the authority ${refused}` })
    else if (!lists.some((list, at) => covers(list, authority) && isOfIssuer(ties[at] ?? [], authority)))
      findings.fault({ file, path: '$', reason: `has no list that covers the certificate of ${refused}` })
  }

  /** @param row the tie of a list to each authority */
  function isOfIssuer(row: readonly string[], authority: X509Certificate): boolean {
    return authorities.some((issuer, at) => row[at] !== 'none' && isIssuer(issuer, authority))
  }
}

function listTimeFault({ thisUpdateMs, nextUpdateMs }: RevocationList, nowMs: number): string | undefined {
  const refused = 'every client of its authority is refused until'
  if (nextUpdateMs !== undefined && nowMs > nextUpdateMs)
    return `has been out of date since ${new Date(nextUpdateMs).toISOString()}: ${refused} it is renewed`
  if (nowMs < thisUpdateMs)
    return `is not valid before ${new Date(thisUpdateMs).toISOString()}: ${refused} then`
  return undefined
}
