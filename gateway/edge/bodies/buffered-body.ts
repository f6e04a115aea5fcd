import { Readable } from 'node:stream'

interface BufferOptions {
  readonly maxBytes: number
  readonly contentLength: number | undefined
  /** Called before each piece is kept. */
  readonly hasRoom?: (bytes: number) => boolean
}

/** `broken`: the client went away, or the body was read before. */
export type BufferFault = 'too_large' | 'no_room' | 'broken'

const LEAST_BYTES = 1024

/**
 * Buffers a whole body. Takes up to three times its size in memory, or 1 KiB. Does not read on after a refusal.
 * Never rejects.
 */
export function bufferBody(body: Readable, options: BufferOptions): Promise<Buffer | BufferFault> {
  const { maxBytes, contentLength, hasRoom = () => true } = options
  if (contentLength !== undefined && contentLength > maxBytes) return Promise.resolve('too_large')
  if (body.destroyed || body.readableEnded) return Promise.resolve('broken')
  return new Promise((resolve) => {
    const buffered = new GrowingBuffer(contentLength)
    const onData = (chunk: Buffer) => {
      if (buffered.length + chunk.length > maxBytes) settle('too_large')
      else if (hasRoom(chunk.length)) buffered.add(chunk)
      else settle('no_room')
    }
    const onEnd = () => settle(buffered.bytes())
    const onBroken = () => settle('broken')
    const settle = (outcome: Buffer | BufferFault) => {
      body.off('data', onData).off('end', onEnd).off('close', onBroken).off('error', onBroken)
      if (outcome === 'too_large' || outcome === 'no_room') body.pause()
      resolve(outcome)
    }
    body.on('data', onData).on('end', onEnd).on('close', onBroken).on('error', onBroken)
    // A new listener does not resume a paused body.
    body.resume()
  })
}

/** Takes a body of announced length if all of it has come, because a buffer costs less than a stream. */
export function takeWhole(source: Readable, bytes: number | undefined): Buffer | undefined {
  if (bytes === undefined || bytes === 0 || source.readableLength !== bytes) return undefined
  if (source.readableFlowing === true || source.destroyed) return undefined
  // Without the length, `read` may return the first piece only.
  const body: Buffer | null = source.read(bytes)
  source.resume()
  return body ?? undefined
}

export function bodyOf(buffered: Buffer): Readable {
  const body = new Readable({ read: () => {} })
  body.push(buffered)
  body.push(null)
  return body
}

/** Copies pieces into one buffer, because each may keep more memory than its bytes need. */
class GrowingBuffer {
  length = 0
  #buffer: Buffer | undefined
  readonly #announced: number | undefined

  constructor(announced: number | undefined) {
    this.#announced = announced
  }

  add(chunk: Buffer): void {
    const filled = this.length
    this.length += chunk.length
    if (chunk.length === this.#announced) {
      this.#buffer = chunk
      return
    }
    const buffer =
      this.#buffer !== undefined && this.length <= this.#buffer.length ? this.#buffer : this.#grow(filled)
    chunk.copy(buffer, filled)
  }

  bytes(): Buffer {
    return this.#buffer?.subarray(0, this.length) ?? Buffer.alloc(0)
  }

  /** Doubles the buffer. Allocating the announced length would let clients reserve much memory for a few bytes each. */
  #grow(filled: number): Buffer {
    const grown = Buffer.allocUnsafeSlow(Math.max(LEAST_BYTES, 2 * this.length))
    this.#buffer?.copy(grown, 0, 0, filled)
    this.#buffer = grown
    return grown
  }
}
