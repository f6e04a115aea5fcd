import { isUtf8 } from 'node:buffer'
import type { Field } from '../../http/syntax/field.ts'

const TIMEOUT_MS = 5_000
const MAX_DOCUMENT_BYTES = 256 * 1024

/**
 * Fetches a JWK Set (RFC 7517 section 5): one GET, at most 5 s from connecting to the last byte, at most 256 KiB,
 * status 200, JSON in UTF-8. Redirects are not followed: where keys come from is what the operator configured.
 * The media type is not looked at: issuers differ in it, and what is no JWK Set fails anyway.
 *
 * @param proof a field that proves the gateway to whoever publishes the keys
 * @returns the parsed document, of whatever shape
 * @throws Error saying what went wrong, also when `signal` gives up
 */
export async function fetchJwks(uri: string, signal: AbortSignal, proof?: Field): Promise<unknown> {
  // Not before it is needed, which is when the listeners are open: loading it takes 50 ms.
  const { Agent, request } = await import('undici')
  // An agent of its own for each fetch: fetches are minutes apart, and a refused body is broken off with it.
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
    if (statusCode !== 200) throw new Error(`the answer has status ${statusCode}, not 200`)
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
    if (bytes > MAX_DOCUMENT_BYTES) throw new Error(`the answer is longer than ${MAX_DOCUMENT_BYTES} bytes`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

function parseJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new Error('the answer is not UTF-8')
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    throw new Error('the answer is not JSON')
  }
}
