import type { Agent } from 'undici'

export interface PostedResponse {
  readonly statusCode: number
  readonly body: Buffer
}

/** Posts to one address. @throws Error that says what went wrong */
export type BoundedPost = (contentType: string, body: Buffer, signal: AbortSignal) => Promise<PostedResponse>

const TIMEOUT_MS = 10_000
/** Of a response; the longest that are expected have some kilobytes. */
const MAX_BYTES = 64 * 1024

/**
 * Posts over one connection, which is kept while it is used. Redirects are not followed, and what is too long or takes more
 * than 10 s is given up.
 *
 * @param ca PEM of the authorities of its certificate; undefined: those that Node knows
 */
export function createBoundedPost(url: string, ca: string | undefined, timeoutMs = TIMEOUT_MS): BoundedPost {
  let agent: Agent | undefined
  return async (contentType, body, signal) => {
    // Loaded late, because loading takes 50 ms and some megabytes.
    const { Agent, request } = await import('undici')
    agent ??= new Agent({ allowH2: false, connections: 1, connect: ca === undefined ? {} : { ca } })
    const response = await request(url, {
      method: 'POST',
      dispatcher: agent,
      headers: { 'content-type': contentType },
      body,
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    })
    return { statusCode: response.statusCode, body: await readBounded(response.body) }
  }
}

export function causeOf(error: unknown): string {
  const { name, message, code } = error as NodeJS.ErrnoException
  if (name === 'TimeoutError') return 'no response in time'
  return code === undefined ? message : `${code}: ${message}`
}

async function readBounded(body: AsyncIterable<Buffer>): Promise<Buffer> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of body) {
    bytes += piece.length
    if (bytes > MAX_BYTES) throw new Error(`the response is longer than ${MAX_BYTES} bytes`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}
