import { isUtf8 } from 'node:buffer'
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
  // Loaded late, after the listeners are open, because loading takes 50 ms.
  const { Agent, request } = await import('undici')
  // One agent per fetch: fetches are minutes apart, and destroying it ends a refused body.
  const agent = new Agent({ allowH2: false })
  try {
    const { statusCode, body } = await request(uri, {
      dispatcher: agent,
      headers: {
        accept: 'application/jwk-set+json, application/json',
        ...(proof && { [proof.name]: proof.value }),
      },
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    })
    if (statusCode !== 200) throw new Error(`the response has status ${statusCode}, not 200`)
    return parseJson(await readBounded(body))
  } finally {
    await agent.destroy()
  }
}

async function readBounded(body: AsyncIterable<Buffer>): Promise<Buffer> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of body) {
    bytes += piece.length
    if (bytes > MAX_DOCUMENT_BYTES) throw new Error(`the response is longer than ${MAX_DOCUMENT_BYTES} bytes`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

function parseJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new Error('the response is not UTF-8')
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    throw new Error('the response is not JSON')
  }
}
