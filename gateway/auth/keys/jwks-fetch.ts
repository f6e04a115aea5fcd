import { isUtf8 } from 'node:buffer'
import { createSender } from '../../http/outgoing/sender.ts'
import type { Field } from '../../http/syntax/field.ts'

const TIMEOUT_MS = 5_000
const MAX_DOCUMENT_BYTES = 256 * 1024

/**
 * Fetches a JWK Set (RFC 7517 section 5): one GET, at most 5 s from connecting to the last byte, at most 256 KiB,
 * status 200, JSON in UTF-8. Redirects are not followed: keys come only from the configured URL.
 * The media type is ignored, because issuers differ in it.
 *
 * @param proof a header field that identifies the gateway to the publisher of the keys
 * @returns the parsed document, of whatever shape
 * @throws Error that says what went wrong, also when `signal` aborts
 */
export async function fetchJwks(uri: string, signal: AbortSignal, proof?: Field): Promise<unknown> {
  const send = createSender({ url: uri, timeoutMs: TIMEOUT_MS, maxResponseBytes: MAX_DOCUMENT_BYTES })
  const headers = {
    accept: 'application/jwk-set+json, application/json',
    ...(proof && { [proof.name]: proof.value }),
  }
  const { statusCode, body } = await send({ method: 'GET', headers, signal })
  if (statusCode !== 200) throw new Error(`the response has status ${statusCode}, not 200`)
  return parseJson(body)
}

function parseJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new Error('the response is not UTF-8')
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    throw new Error('the response is not JSON')
  }
}
