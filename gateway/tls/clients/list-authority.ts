import type { X509Certificate } from 'node:crypto'
import { expectTag, membersIn, membersOf, readDer, TAG } from '../../asn1/der-elements.ts'
import type { RevocationList } from './revocation-list.ts'

/** Lists of one authority, by what says that they are. */
interface ListsOfAuthority {
  /** It has signed them. */
  readonly proved: readonly RevocationList[]
  /** They have its name; their signature algorithm is not known here. */
  readonly named: readonly RevocationList[]
}

type Tie = keyof ListsOfAuthority | 'none'

export function listsOf(authority: X509Certificate, lists: readonly RevocationList[]): ListsOfAuthority {
  return {
    proved: lists.filter((list) => tieOf(list, authority) === 'proved'),
    named: lists.filter((list) => tieOf(list, authority) === 'named'),
  }
}

/** Lists may be long, so each signature is verified once per authority, not per connection. */
const MAX_TIES = 256
const TIES = new WeakMap<RevocationList, Map<string, Tie>>()

/** What says that the list is the authority's. */
export function tieOf(list: RevocationList, authority: X509Certificate): Tie {
  let ties = TIES.get(list)
  if (ties === undefined) {
    ties = new Map()
    TIES.set(list, ties)
  }
  const { fingerprint256 } = authority
  const known = ties.get(fingerprint256)
  if (known !== undefined) return known
  if (ties.size >= MAX_TIES) ties.clear()
  const tie = findTie(list, authority)
  ties.set(fingerprint256, tie)
  return tie
}

function findTie(list: RevocationList, authority: X509Certificate): Tie {
  const signature = list.checkSignature(authority.publicKey)
  if (signature === 'good') return 'proved'
  return signature === 'unknown algorithm' && list.issuer === subjectDerOf(authority) ? 'named' : 'none'
}

/** In hex, without its own tag and length, like `RevocationList.issuer`. */
function subjectDerOf({ raw }: X509Certificate): string {
  const [signed] = membersOf(readDer(raw))
  const members = membersIn(signed, TAG.sequence)
  // Before the subject: version, which may be left out, serial number, algorithm, issuer and time.
  const subject = members[members[0]?.tag === TAG.explicit0 ? 5 : 4]
  return expectTag(subject, TAG.sequence).content.toString('hex')
}
