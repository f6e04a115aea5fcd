import type { Scheme } from '../tokens/authorization.ts'
import { type Binding, isBoundToCertificate } from './binding.ts'
import type { ProofFault, ProofVerifier } from './dpop.ts'

/** A token as one request presents it. */
export interface Presentation {
  readonly scheme: Scheme
  readonly token: string
  /** The value of the `DPoP` header field, several of them joined by a comma; undefined without one. */
  readonly proof: string | undefined
  /** SHA-256 in base64url of the client certificate of this TLS connection; undefined without one. */
  readonly certificate: string | undefined
  readonly method: string
  /** Normalised, without the query. */
  readonly path: string
}

/**
 * Checks that the caller possesses everything the token is bound to. To be called at every use of a verified token. A
 * token bound to a key requires the scheme `DPoP`, and that scheme requires such a token (RFC 9449 sections 7.1 and 7.2).
 * A token bound to a certificate requires that certificate's connection (RFC 8705 section 3). Never throws.
 *
 * @returns undefined when all is proved; a promise, which never rejects, when the shared store is asked
 */
export function provePossession(
  proofs: ProofVerifier,
  binding: Binding | undefined,
  presentation: Presentation,
): ProofFault | undefined | Promise<ProofFault | undefined> {
  const { scheme, token, proof, certificate, method, path } = presentation
  const thumbprint = binding?.thumbprint
  if (thumbprint !== undefined && !isBoundToCertificate(thumbprint, certificate)) {
    return certificate === undefined ? NO_CERTIFICATE : OTHER_CERTIFICATE
  }
  const jkt = binding?.jkt
  if (jkt === undefined) return scheme === 'dpop' ? NOT_BOUND : undefined
  return scheme === 'bearer' ? DOWNGRADED : proofs.verify(proof, { method, path, token, jkt })
}

const NO_CERTIFICATE = refused(
  'The access token is bound to a client certificate, and none was presented',
  'x5t#S256: there is no client certificate',
)
const OTHER_CERTIFICATE = refused(
  'The access token is bound to another client certificate',
  'x5t#S256: the client certificate is another',
)
const DOWNGRADED = refused(
  'The access token is bound to a DPoP key and needs a proof',
  'jkt: presented as Bearer, without its proof',
)
const NOT_BOUND = refused(
  'The access token is not bound to a DPoP key',
  'no jkt: presented as DPoP, but any key would do',
)

function refused(description: string, cause: string): ProofFault {
  return { error: 'invalid_token', description, cause }
}
