import { isUtf8 } from 'node:buffer'
import type { Field } from '../../edge/syntax/field.ts'
import { createSender } from '../../outgoing/sender.ts'

const TIMEOUT_MS = 5_000
const MAX_DOCUMENT_BYTES = 256 * 1024

/**
 * Fetches a JWK Set (RFC 7517 section 5), by `fetchJson`: keys come only from the configured URL.
 *
 * @param proof a header field that identifies the gateway to the publisher of the keys
 */
export function fetchJwks(uri: string, signal: AbortSignal, proof?: Field): Promise<unknown> {
  const accept = 'application/jwk-set+json, application/json'
  return fetchJson(uri, signal, { accept, ...(proof && { [proof.name]: proof.value }) })
}

/**
 * Fetches what an issuer publishes: one GET, at most 5 s from connecting to the last byte, at most 256 KiB, status 200, JSON
 * in UTF-8. Redirects are not followed. The media type is ignored, because issuers differ in it.
 *
 * @returns the parsed document, of whatever shape
 * @throws Error that says what went wrong, also when `signal` aborts
 */
export async function fetchJson(
  uri: string,
  signal: AbortSignal,
  headers: Readonly<Record<string, string>> = { accept: 'application/json' },
): Promise<unknown> {
  const send = createSender({ url: uri, timeoutMs: TIMEOUT_MS, maxResponseBytes: MAX_DOCUMENT_BYTES })
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
