import { der, derInteger, derOid, TAG } from '../../../asn1/der-elements.ts'
import { SHA_256 } from '../../../asn1/signature-algorithm.ts'

/**
 * A TimeStampReq (RFC 3161 section 2.4.1) that asks for the authority's certificate too.
 *
 * @param hash SHA-256 of what is to be stamped
 * @param nonce says that the response is not an earlier one
 * @param policy an object identifier in dotted decimals; undefined: the authority's own
 */
export function stampRequest(hash: Uint8Array, nonce: Uint8Array, policy: string | undefined): Buffer {
  return der(
    TAG.sequence,
    derInteger(Buffer.from([1])),
    der(TAG.sequence, der(TAG.sequence, derOid(SHA_256), der(TAG.null)), der(TAG.octets, hash)),
    ...(policy === undefined ? [] : [derOid(policy)]),
    derInteger(nonce),
    der(TAG.boolean, Buffer.from([0xff])),
  )
}
