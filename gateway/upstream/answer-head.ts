/**
 * How the end of an answer's body is found (RFC 9112 section 6.3): `bounded` by its framing or because there is none,
 * by the end of the connection, or `faulty` when it cannot be passed on safely.
 */
export type BodyFraming = 'bounded' | 'until close' | 'faulty'

const CONTENT_LENGTH = 'content-length'
const TRANSFER_ENCODING = 'transfer-encoding'

/** A raw header list as undici gives it, as text: latin1, as received. */
export function headerText(rawHeaders: unknown): string[] {
  const buffers = rawHeaders as readonly Buffer[]
  const text = new Array<string>(buffers.length)
  for (let i = 0; i < buffers.length; i++) text[i] = (buffers[i] as Buffer).toString('latin1')
  return text
}

/** Other white space than spaces makes undici's parser hand the chunks on undecoded. */
const CHUNKED = /^ *chunked *$/i

/**
 * Judges what undici's parser leaves to its user:
 *
 * - A transfer coding other than exactly `chunked`, once, is not decoded by anybody, and would reach the client unnamed.
 * - A 204 must not frame a body (RFC 9110 section 8.6, RFC 9112 section 6.1); whoever does may also send one.
 */
export function bodyFraming(method: string, status: number, headers: readonly string[]): BodyFraming {
  let framed = false
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] as string
    const value = headers[i + 1] as string
    if (name.length === CONTENT_LENGTH.length && name.toLowerCase() === CONTENT_LENGTH) {
      if (framed || (status === 204 && Number(value) !== 0)) return 'faulty'
      framed = true
    } else if (name.length === TRANSFER_ENCODING.length && name.toLowerCase() === TRANSFER_ENCODING) {
      if (framed || status === 204 || !CHUNKED.test(value)) return 'faulty'
      framed = true
    }
  }
  return framed || method === 'HEAD' || status === 204 || status === 304 ? 'bounded' : 'until close'
}

/** Whether a 101 switches to the protocol that was asked for, and to nothing else (RFC 9110 section 7.8). */
export function switchesTo(protocol: string, headers: readonly string[]): boolean {
  let switched: string | undefined
  for (let i = 0; i + 1 < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() !== 'upgrade') continue
    if (switched !== undefined) return false
    switched = headers[i + 1]?.trim().toLowerCase()
  }
  return switched === protocol.toLowerCase()
}
