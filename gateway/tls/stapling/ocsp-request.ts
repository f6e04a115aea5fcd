import { hash, type X509Certificate } from 'node:crypto'
import { der, derOid, TAG } from '../../asn1/der-elements.ts'
import { SHA_1 } from '../../asn1/signature-algorithm.ts'
import { type IssuedCertificate, keyBytes, namesOf } from './ocsp-response.ts'

const RESPONDER = /^OCSP - URI:(.+)$/m

/** An OCSPRequest (RFC 6960 section 4.1.1) about one certificate. Names are hashed by SHA-1, which every responder knows. */
export function ocspRequest({ leaf, issuer }: IssuedCertificate): Buffer {
  const names = namesOf(leaf)
  const id = der(
    TAG.sequence,
    der(TAG.sequence, derOid(SHA_1), der(TAG.null)),
    der(TAG.octets, hash('sha1', names.issuer, 'buffer')),
    der(TAG.octets, hash('sha1', keyBytes(issuer.publicKey), 'buffer')),
    names.serial,
  )
  const requests = der(TAG.sequence, der(TAG.sequence, id))
  return der(TAG.sequence, der(TAG.sequence, requests))
}

/** Whom the certificate names to ask about it, by http; undefined: nobody. */
export function responderOf({ infoAccess }: X509Certificate): string | undefined {
  const written = RESPONDER.exec(infoAccess ?? '')?.[1]
  // Node quotes what could be misread; authorities have no need for that.
  const url = written === undefined || written.startsWith('"') ? null : URL.parse(written)
  return url?.protocol === 'http:' && url.username === '' ? url.href : undefined
}
