import type { Readable } from 'node:stream'

/**
 * Takes a body whose announced bytes are all there already, as those of most requests are: a buffer costs undici some
 * 15 µs of processor time less than a stream. The rest of the source's life (`end`, `close`) goes on by itself.
 *
 * @param headers flat list of the request.
 * @returns undefined when there is no Content-Length, or not all of it has come: the source has not been touched.
 */
export function wholeBody(source: Readable, headers: readonly string[]): Buffer | undefined {
  return takeWhole(source, contentLength(headers))
}

/** The same, of a body that is `bytes` long. */
export function takeWhole(source: Readable, bytes: number | undefined): Buffer | undefined {
  if (bytes === undefined || bytes === 0 || source.readableLength !== bytes) return undefined
  // Read by somebody else, or broken off: both are a stream's affair.
  if (source.readableFlowing === true || source.destroyed) return undefined
  // Without the number it may give the first piece only.
  const body: Buffer | null = source.read(bytes)
  source.resume()
  return body ?? undefined
}

/** @returns undefined when there is none. */
export function contentLength(headers: readonly string[]): number | undefined {
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] as string
    if (name.length === 14 && name.toLowerCase() === 'content-length') return Number(headers[i + 1])
  }
  return undefined
}
