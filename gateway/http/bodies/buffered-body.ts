import { Readable } from 'node:stream'

export interface GatherOptions {
  /** A body with more bytes than these is not gathered. */
  readonly maxBytes: number
  /** Bytes announced by Content-Length; undefined when the length is not known beforehand. */
  readonly contentLength: number | undefined
  /** Asked before each piece is kept. */
  readonly hasRoom?: (bytes: number) => boolean
}

/** `too_large`: beyond its bound. `no_room`: there was none for the next piece. `broken`: the client went away, or the body was not there to be read. */
export type GatherFault = 'too_large' | 'no_room' | 'broken'

const LEAST_BYTES = 16 * 1024

/**
 * Gathers a whole body in memory, for who must have seen all of it before any of it goes on. What is held is at most
 * twice the bound, in however small pieces it comes. Beyond the bound, or without room, reading stops and the rest is left unread. In all
 * cases no listener is left behind. Waits as long as the body does: its time is bounded by whoever owns the connection.
 * Never rejects.
 */
export function gatherBody(body: Readable, options: GatherOptions): Promise<Buffer | GatherFault> {
  const { maxBytes, contentLength, hasRoom = () => true } = options
  if (contentLength !== undefined && contentLength > maxBytes) return Promise.resolve('too_large')
  if (body.destroyed || body.readableEnded) return Promise.resolve('broken')
  return new Promise((resolve) => {
    const gathered = new GrowingBuffer()
    const onData = (chunk: Buffer) => {
      if (gathered.length + chunk.length > maxBytes) settle('too_large')
      else if (hasRoom(chunk.length)) gathered.add(chunk)
      else settle('no_room')
    }
    const onEnd = () => settle(gathered.bytes())
    const onBroken = () => settle('broken')
    const settle = (outcome: Buffer | GatherFault) => {
      body.off('data', onData).off('end', onEnd).off('close', onBroken).off('error', onBroken)
      if (outcome === 'too_large' || outcome === 'no_room') body.pause()
      resolve(outcome)
    }
    body.on('data', onData).on('end', onEnd).on('close', onBroken).on('error', onBroken)
    // A listener alone does not set a body going that somebody held back.
    body.resume()
  })
}

/** A body that was gathered, as a stream to send on: all its bytes are there already, then it ends. */
export function bodyOf(gathered: Buffer): Readable {
  const body = new Readable({ read: () => {} })
  body.push(gathered)
  body.push(null)
  return body
}

/** One piece is kept as it is; more are copied together, because each may hold on to far more memory than its bytes. */
class GrowingBuffer {
  length = 0
  #buffer: Buffer | undefined

  add(chunk: Buffer): void {
    const filled = this.length
    this.length += chunk.length
    if (this.#buffer === undefined) {
      this.#buffer = chunk
      return
    }
    if (this.length > this.#buffer.length) this.#grow(filled)
    chunk.copy(this.#buffer, filled)
  }

  bytes(): Buffer {
    return this.#buffer?.subarray(0, this.length) ?? Buffer.alloc(0)
  }

  /** Doubles: what was announced is not believed, or many could have much set aside for a few bytes each. */
  #grow(filled: number): void {
    const grown = Buffer.allocUnsafeSlow(Math.max(LEAST_BYTES, 2 * this.length))
    this.#buffer?.copy(grown, 0, 0, filled)
    this.#buffer = grown
  }
}
