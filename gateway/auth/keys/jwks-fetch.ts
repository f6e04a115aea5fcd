import { isUtf8 } from 'node:buffer'
import type { IncomingMessage, RequestOptions } from 'node:http'
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
  const either = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)])
  const headers = {
    accept: 'application/jwk-set+json, application/json',
    ...(proof && { [proof.name]: proof.value }),
  }
  try {
    const response = await get(uri, { headers, signal: either })
    if (response.statusCode === 200) return parseJson(await readBounded(response))
    response.destroy()
    throw new Error(`the response has status ${response.statusCode}, not 200`)
  } catch (error) {
    throw either.aborted ? either.reason : error
  }
}

/** On a connection of its own, since fetches are minutes apart. By Node's client: undici takes 10 MB, and 50 ms to load. */
function get(uri: string, options: RequestOptions): Promise<IncomingMessage> {
  const url = new URL(uri)
  const { request } = process.getBuiltinModule(url.protocol === 'https:' ? 'node:https' : 'node:http')
  return new Promise((resolve, reject) => {
    request(url, { ...options, agent: false })
      .once('response', resolve)
      .on('error', reject)
      // Without an error where the response changes the protocol.
      .once('close', () => reject(new Error('the connection was closed')))
      .end()
  })
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
