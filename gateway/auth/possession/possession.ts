import type { Scheme } from '../tokens/authorization.ts'
import { type Binding, isBoundToCertificate } from './binding.ts'
import type { ProofFault, ProofVerifier } from './dpop.ts'

interface ShownCertificate {
  readonly authorized: boolean
  /** For the log. */
  readonly reason: string | undefined
  readonly thumbprintBase64url: string
}

export interface Presentation {
  readonly scheme: Scheme
  readonly token: string
  /** `DPoP` fields, joined by a comma. */
  readonly proof: string | undefined
  readonly certificate: ShownCertificate | undefined
  readonly method: string
  readonly path: string
}

/** Demands the key (RFC 9449 section 7) and certificate (RFC 8705 section 3) of a token. Never throws or rejects. */
export function provePossession(
  proofs: ProofVerifier,
  binding: Binding | undefined,
  presentation: Presentation,
): ProofFault | undefined | Promise<ProofFault | undefined> {
  const { scheme, token, proof, certificate, method, path } = presentation
  const thumbprint = binding?.thumbprint
  if (thumbprint !== undefined) {
    if (certificate === undefined) return NO_CERTIFICATE
    if (!certificate.authorized) return refusedCertificate(certificate)
    if (!isBoundToCertificate(thumbprint, certificate.thumbprintBase64url)) return OTHER_CERTIFICATE
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
  'x5t#S256: the client presented another certificate',
)
const DOWNGRADED = refused(
  'The access token is bound to a DPoP key and needs a proof',
  'jkt: presented as Bearer, without its proof',
)
const NOT_BOUND = refused(
  'The access token is not bound to a DPoP key',
  'no jkt: presented as DPoP, but bound to no key',
)

function refusedCertificate({ reason }: ShownCertificate): ProofFault {
  const description =
    'The access token is bound to a client certificate, and the one presented is not accepted'
  return {
    ...refused(description, `x5t#S256: the client certificate is not accepted: ${reason}`),
    ofRefusedCertificate: true,
  }
}

function refused(description: string, cause: string): ProofFault {
  return { error: 'invalid_token', description, cause }
}
