import type { Socket } from 'node:net'
import type { DeadlineTerms } from '../http1/connection-deadline.ts'
import type { ConnectionTerms, ServedConnection } from '../http1/connection-terms.ts'
import { PREFACE } from './frames.ts'

/** Whoever sends this speaks HTTP/2: what is wrong behind it is a fault of HTTP/2. */
const FIRST_LINE = PREFACE.slice(0, PREFACE.indexOf('\n') + 1)

type Terms = DeadlineTerms & Pick<ConnectionTerms<unknown>, 'left'>

/**
 * A connection whose client has not said yet which version of HTTP it speaks (RFC 9113 section 3.3): the first line of the
 * preface of HTTP/2 is a request of HTTP/1.1 with an unknown method.
 */
export class FirstBytes implements ServedConnection {
  slot = -1
  readonly socket: Socket
  readonly isIdle = true
  readonly deadlineMs: number
  readonly #left: Terms['left']
  readonly #found: (isHttp2: boolean) => void
  #bytes: Buffer = Buffer.alloc(0)

  constructor(socket: Socket, { left, steadyClock, timeouts }: Terms, found: (isHttp2: boolean) => void) {
    this.socket = socket
    this.#left = left
    this.#found = found
    this.deadlineMs = steadyClock() + timeouts.headersMs
    socket.on('data', this.#onData)
    socket.on('end', this.#onEnd)
    socket.on('close', this.#onClose)
    socket.on('error', this.#onError)
  }

  /** The reader of HTTP/1.1 refuses an incomplete first line. */
  checkTime(nowMs: number): void {
    if (nowMs < this.deadlineMs) return
    if (this.#bytes.length === 0) this.socket.destroy()
    else this.#decide(false)
  }

  retire(): void {
    this.#decide(false)
  }

  readonly #onData = (bytes: Buffer): void => {
    this.#bytes = this.#bytes.length === 0 ? bytes : Buffer.concat([this.#bytes, bytes])
    const length = Math.min(this.#bytes.length, FIRST_LINE.length)
    if (this.#bytes.toString('latin1', 0, length) !== FIRST_LINE.slice(0, length)) this.#decide(false)
    else if (length === FIRST_LINE.length) this.#decide(true)
  }

  /** The client has closed its half before it has said enough. */
  readonly #onEnd = (): void => {
    this.socket.destroySoon()
  }

  readonly #onClose = (): void => {
    this.#left(this)
  }

  readonly #onError = (): void => {
    this.socket.destroy()
  }

  #decide(isHttp2: boolean): void {
    const { socket } = this
    if (socket.destroyed) return
    socket.off('data', this.#onData)
    socket.off('end', this.#onEnd)
    socket.off('close', this.#onClose)
    socket.pause()
    if (this.#bytes.length > 0) socket.unshift(this.#bytes)
    this.#left(this)
    this.#found(isHttp2)
    // Another process may have it now.
    if (!socket.destroyed && socket.listenerCount('data') > 0) socket.resume()
    socket.off('error', this.#onError)
  }
}
