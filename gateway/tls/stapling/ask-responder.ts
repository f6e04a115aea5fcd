import type { Send } from '../../outgoing/sender.ts'
import { type IssuedCertificate, ocspRequest, responderOf } from './ocsp-response.ts'

/** Asks the responder (RFC 6960 appendix A). @throws Error that says why there is no response */
export async function askResponder(
  certificate: IssuedCertificate,
  send: Send,
  signal?: AbortSignal,
): Promise<Buffer> {
  const { statusCode, body } = await send({
    method: 'POST',
    headers: { 'content-type': 'application/ocsp-request' },
    body: ocspRequest(certificate),
    ...(signal && { signal }),
  }).catch((error: Error) => {
    throw new Error(`${responderOf(certificate.leaf)}: ${error.message}`)
  })
  if (statusCode === 200) return body
  throw new Error(`${responderOf(certificate.leaf)} responds ${statusCode}`)
}
