import type { Socket } from 'node:net'
import { isBodiless, STATUS_CODES } from '../syntax/status-codes.ts'
import { dateOf } from '../syntax/timestamp.ts'
import type { ConnectionTerms } from './connection-terms.ts'
import type { OutgoingResponse, ResponseHead } from './handler.ts'
import type { IncomingRequest } from './incoming-request.ts'

/** A longer piece of a body is written apart from the head. A shorter one joins the text of the head. */
const MAX_TEXT_BYTES = 16 * 1024

/** A paused socket that is given away. */
export interface DetachedSocket {
  readonly socket: Socket
  /** Unread bytes if the client has closed its half; otherwise they are back in the socket. */
  readonly unread: Buffer | undefined
}

export interface ResponseConnection {
  readonly socket: Socket
  readonly terms: Pick<ConnectionTerms<unknown>, 'clock' | 'timeouts'>
  /** Called when the socket accepts no more. @param idleMs undefined: the usual time */
  watchWrites(idleMs: number | undefined): void
  responseWritten(response: ClientResponse): void
  detach(): DetachedSocket
}

/** One response (RFC 9112 sections 6 to 9). The head and a short first piece of the body go out in one write. */
export class ClientResponse implements OutgoingResponse {
  keepAlive: boolean
  idleMs: number | undefined = undefined
  headersSent = false
  readonly #connection: ResponseConnection
  readonly #request: IncomingRequest
  #head = ''
  #chunked = false
  #bodiless = false
  /** Writes that wait for the end of `hold`; undefined while nothing is held. */
  #held: (string | Buffer)[] | undefined = undefined
  #onSwitched: Parameters<OutgoingResponse['switch']>[1] | undefined = undefined
  #ended = false
  #closed = false
  #closeListeners: (() => void)[] | undefined = undefined

  constructor(connection: ResponseConnection, request: IncomingRequest, keepAlive: boolean) {
    this.#connection = connection
    this.#request = request
    this.keepAlive = keepAlive
  }

  retireConnection(): void {
    this.keepAlive = false
  }

  onClose(listener: () => void): void {
    this.#closeListeners ??= []
    this.#closeListeners.push(listener)
  }

  onDrain(listener: () => void): void {
    this.#connection.socket.once('drain', listener)
  }

  writeInterim(status: number, lines: string): void {
    if (!this.#ended) this.#send(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines}\r\n`)
  }

  /** Unless a response has begun, sends something that the client ignores. */
  probe(): void {
    if (this.#request.version === '1.1' && !this.headersSent) this.writeInterim(100, '')
  }

  writeHead({ status, lines, contentLength, dated }: ResponseHead): void {
    if (this.#ended) return
    const { version, method } = this.#request
    const { clock, timeouts } = this.#connection.terms
    this.#bodiless = isBodiless(method, status)
    const unbounded = contentLength === undefined && !this.#bodiless
    this.#chunked = unbounded && version === '1.1'
    // Only the end of the connection ends such a body.
    if (unbounded && !this.#chunked) this.keepAlive = false
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'unknown'}\r\n${lines}`
    if (!dated) head += `Date: ${dateOf(clock())}\r\n`
    if (this.#chunked) head += 'Transfer-Encoding: chunked\r\n'
    head += this.keepAlive
      ? `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(timeouts.keepAliveMs / 1000)}\r\n\r\n`
      : 'Connection: close\r\n\r\n'
    this.#head = head
  }

  flushHead(): void {
    if (this.#head === '') return
    this.headersSent = true
    this.#send(this.#head)
    this.#head = ''
  }

  write(piece: Buffer): boolean {
    const { socket } = this.#connection
    if (this.#ended || this.#bodiless || piece.length === 0) return true
    if (piece.length <= MAX_TEXT_BYTES && this.#head !== '') {
      const head = this.#head
      this.#head = ''
      this.headersSent = true
      const text = piece.toString('latin1')
      this.#send(this.#chunked ? `${head}${piece.length.toString(16)}\r\n${text}\r\n` : head + text)
    } else {
      socket.cork()
      this.flushHead()
      if (this.#chunked) this.#send(`${piece.length.toString(16)}\r\n`)
      this.#send(piece)
      if (this.#chunked) this.#send('\r\n')
      socket.uncork()
    }
    // `writableNeedDrain` may be true although the system took everything.
    if (!socket.writableNeedDrain || socket.writableLength === 0) return true
    this.#connection.watchWrites(this.idleMs)
    return false
  }

  get isHolding(): boolean {
    return this.#held !== undefined || this.#connection.socket.writableLength > 0
  }

  end(): void {
    if (this.#ended) return
    this.#ended = true
    if (this.#chunked) {
      this.#head += '0\r\n\r\n'
      this.#chunked = false
    }
    this.flushHead()
    if (this.#held === undefined) this.#connection.responseWritten(this)
  }

  hold(): () => void {
    const { socket } = this.#connection
    if (!this.#closed) this.#held = []
    return () => {
      const held = this.#held ?? []
      this.#held = undefined
      if (held.length > 1) socket.cork()
      for (const piece of held) this.#send(piece)
      if (held.length > 1) socket.uncork()
      if (this.#onSwitched !== undefined) this.#handOver()
      else if (this.#ended) this.#connection.responseWritten(this)
    }
  }

  switch(head: string, onSwitched: Parameters<OutgoingResponse['switch']>[1]): void {
    this.headersSent = true
    this.#ended = true
    this.#onSwitched = onSwitched
    this.#send(head)
    if (this.#held === undefined) this.#handOver()
  }

  #handOver(): void {
    const onSwitched = this.#onSwitched
    this.#onSwitched = undefined
    const { socket, unread } = this.#connection.detach()
    onSwitched?.(socket, unread)
  }

  breakOff(): void {
    if (!this.#closed) this.#connection.socket.resetAndDestroy()
  }

  /** Called only by the connection. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    if (this.#closeListeners !== undefined) for (const listener of this.#closeListeners) listener()
    // Held pieces would keep their read buffers lent.
    this.#held = undefined
    // A switch that is still held has lost its client.
    const onSwitched = this.#onSwitched
    this.#onSwitched = undefined
    onSwitched?.(undefined)
  }

  #send(piece: string | Buffer): void {
    const { socket } = this.#connection
    if (this.#held !== undefined) this.#held.push(piece)
    else if (!socket.writable) return
    else if (typeof piece === 'string') socket.write(piece, 'latin1')
    else socket.write(piece)
  }
}
