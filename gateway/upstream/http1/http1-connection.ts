import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { type BodyReceiver, copyOf, ReadBuffer } from '../../edge/bodies/read-buffers.ts'
import type { Timed } from '../../edge/syntax/deadlines.ts'
import type { Field } from '../../edge/syntax/field.ts'
import { openConnection } from '../open-connection.ts'
import { Pool } from '../pool.ts'
import { METHODS_WITH_BODY } from '../request-body.ts'
import type { UpstreamFault, UpstreamFaultKind, UpstreamRequest } from '../upstream-client.ts'
import { ResponseParser, type ResponseReader } from './response-parser.ts'

/** Less than the 5 s after which a Node server closes an idle connection. */
const KEEP_ALIVE_MS = 4000
/** We close a connection this long before the server's timeout, so that no request meets the server's close. */
const KEEP_ALIVE_MARGIN_MS = 2000
const KEEP_ALIVE_MAX_MS = 60_000

/** `nowMs` is read once for each piece received. */
export interface ConnectionUser extends BodyReceiver {
  readonly request: Pick<UpstreamRequest, 'method' | 'upgrade' | 'body'>
  connected(): void
  /** Nothing was sent. */
  connectFailed(fault: UpstreamFault): void
  interim(status: number, fields: readonly Field[]): void
  head(status: number, fields: readonly Field[], nowMs: number): void
  /** The response is whole. The connection no longer belongs to this exchange. */
  ended(): void
  switched(fields: readonly Field[], socket: Duplex): void
  failed(kind: UpstreamFaultKind, cause: string): void
}

/** Serves one exchange at a time (RFC 9112 section 9). */
export class Http1Connection implements Timed, ResponseReader {
  slot = -1
  idleUntilMs = Number.POSITIVE_INFINITY
  readonly #pool: ConnectionPool
  readonly #parser = new ResponseParser(this)
  readonly socket: Socket
  #user: ConnectionUser | undefined = undefined
  #connected = false
  /** Takes no further exchange. */
  #retired = false
  #sending = false
  /** True when the upstream may not have read the whole last request, so no other may follow. */
  #leftUnread = false
  #paused = false
  #hasEnded = false
  readonly #buffer = new ReadBuffer('upstreams')
  /** Bytes read while the receiver held the body back. */
  #unread: Buffer | undefined = undefined
  #nowMs = 0
  #upgraded: UpgradedStream | undefined = undefined
  #error: NodeJS.ErrnoException | undefined = undefined

  constructor(pool: ConnectionPool) {
    this.#pool = pool
    this.socket = openConnection(pool, {
      onread: { buffer: () => this.#buffer.next(), callback: (length) => this.#received(length) },
      connected: () => {
        this.#connected = true
        pool.health.connected()
        this.#user?.connected()
      },
      failed: (fault) => this.#connectFailed(fault),
    })
    this.socket.on('error', (error) => {
      this.#error = error
    })
    this.socket.on('end', () => this.#ended())
    this.socket.on('close', () => this.#closed())
  }

  get responseBegan(): boolean {
    return this.#parser.began
  }

  /** True when the upstream had closed, and took no byte. */
  get tookNothing(): boolean {
    return this.socket.errored !== null
  }

  /** Calls `connected`, now or once the connection is made. */
  assignTo(user: ConnectionUser): void {
    this.#user = user
    this.idleUntilMs = Number.POSITIVE_INFINITY
    if (this.#connected) user.connected()
  }

  /** Writes the head (latin1), and the body if it is whole. */
  write(head: string, body: Buffer | undefined): void {
    const user = this.#user
    if (user === undefined) return
    this.#parser.expect(user.request)
    this.#sending = true
    if (body === undefined) this.socket.write(head, 'latin1')
    else if (body.length <= 4096) this.socket.write(head + body.toString('latin1'), 'latin1')
    else {
      this.socket.cork()
      this.socket.write(head, 'latin1')
      this.socket.write(body)
      this.socket.uncork()
    }
  }

  sent(): void {
    this.#sending = false
  }

  resume(): void {
    const unread = this.#unread
    this.#unread = undefined
    this.#parser.held = false
    if (unread !== undefined) this.#read(unread, unread.length)
    if (this.#parser.held) return
    if (this.#hasEnded) this.#ended()
    else this.#resumeSocket()
  }

  /** Closes the connection without a call to its exchange. */
  destroy(): void {
    this.#user = undefined
    this.#retire()
    this.socket.destroy()
  }

  checkTime(nowMs: number): void {
    if (nowMs >= this.idleUntilMs) this.destroy()
  }

  interim(status: number, fields: readonly Field[]): void {
    this.#user?.interim(status, fields)
  }

  head(status: number, fields: readonly Field[]): void {
    const user = this.#user
    if (user === undefined) return
    if (user.request.body !== null) this.#leftUnread = this.#isLeftUnread(user.request.method, status)
    user.head(status, fields, this.#nowMs)
  }

  /** True unless the whole request was written, and the response shows that the upstream has read its body. */
  #isLeftUnread(method: string, status: number): boolean {
    const isRead = METHODS_WITH_BODY.has(method) && status >= 200 && status < 300
    return this.#sending || this.socket.writableLength > 0 || !isRead
  }

  data(bytes: Buffer, from: number, to: number): boolean {
    const user = this.#user
    return user !== undefined && this.#buffer.pass({ bytes, from, to }, user, this.#nowMs)
  }

  /** @returns `false` to pause reading. With TLS, decrypted bytes still come. */
  #received(length: number): boolean {
    const upgraded = this.#upgraded
    if (upgraded !== undefined) return upgraded.receive(this.#buffer.bytes, 0, length)
    if (this.#unread !== undefined) {
      this.#unread = Buffer.concat([this.#unread, this.#buffer.bytes.subarray(0, length)])
      return false
    }
    // Unsolicited bytes must not become the next response.
    if (this.#user === undefined) this.destroy()
    else this.#read(this.#buffer.bytes, length)
    return !this.#paused
  }

  #read(bytes: Buffer, length: number): void {
    this.#nowMs = this.#pool.clock()
    let at = length
    try {
      at = this.#parser.read(bytes, 0, length)
    } catch (mistake) {
      this.#fail('broken', `an error in the receiver: ${mistake}`)
      return
    }
    const { phase } = this.#parser
    if (phase === 'whole') this.#whole(at === length)
    else if (phase === 'faulty') this.#fail('malformed', this.#parser.fault)
    else if (phase === 'switched') this.#switched(bytes, at, length)
    else if (this.#parser.held) this.#holdBack(bytes, at, length)
  }

  #holdBack(bytes: Buffer, from: number, to: number): void {
    this.#paused = true
    // Bytes held back earlier have their own buffer.
    if (from < to)
      this.#unread = bytes === this.#buffer.bytes ? copyOf(bytes, from, to) : bytes.subarray(from, to)
  }

  /** @param exact true when no byte came after the response */
  #whole(exact: boolean): void {
    const user = this.#user
    this.#buffer.isBulk = false
    this.#parser.stop()
    if (!exact || this.#hasEnded || this.#sending || this.#leftUnread || !this.#parser.keepsConnection)
      this.destroy()
    else {
      this.#user = undefined
      this.idleUntilMs = this.#nowMs + this.#keepAliveMs()
      this.#resumeSocket()
      this.#pool.free(this)
    }
    user?.ended()
  }

  #keepAliveMs(): number {
    const seconds = this.#parser.keepAliveSeconds
    if (seconds === undefined) return KEEP_ALIVE_MS
    return Math.min(seconds * 1000 - KEEP_ALIVE_MARGIN_MS, KEEP_ALIVE_MAX_MS)
  }

  #switched(bytes: Buffer, from: number, to: number): void {
    const user = this.#user
    if (this.#sending) {
      this.#fail('malformed', 'a switch of protocol before the request was whole')
      return
    }
    this.#user = undefined
    this.#retire()
    const upgraded = new UpgradedStream(this.socket)
    this.#upgraded = upgraded
    if (from < to) upgraded.receive(bytes, from, to)
    this.#pool.connectionClosed()
    user?.switched(this.#parser.fields, upgraded)
  }

  #resumeSocket(): void {
    if (!this.#paused) return
    this.#paused = false
    this.socket.resume()
  }

  #ended(): void {
    if (this.#upgraded !== undefined) return
    this.#hasEnded = true
    // TLS reports the end even while reading is paused.
    if (this.#unread !== undefined) return
    const user = this.#user
    if (user !== undefined && this.#parser.phase === 'until close') {
      this.destroy()
      user.ended()
    } else this.#fail('broken', 'the connection ended before the response was whole')
  }

  #closed(): void {
    this.#buffer.release()
    if (this.#upgraded !== undefined) return
    this.#pool.connectionClosed()
    if (this.#hasEnded && this.#unread !== undefined) return
    const error = this.#error
    const cause = error === undefined ? 'the connection was closed' : `${error.code}: ${error.message}`
    this.#fail('broken', cause)
  }

  #connectFailed(fault: UpstreamFault): void {
    const user = this.#user
    // An attempt that we gave up says nothing about the upstream.
    if (!this.#retired) this.#pool.health.connectFailed(fault.cause)
    this.destroy()
    user?.connectFailed(fault)
  }

  #fail(kind: UpstreamFaultKind, cause: string): void {
    const user = this.#user
    this.destroy()
    user?.failed(kind, cause)
  }

  #retire(): void {
    this.#parser.stop()
    this.#unread = undefined
    if (this.#retired) return
    this.#retired = true
    this.#pool.retired(this)
  }
}

/** Both directions after a 101. The socket reads into our buffer instead of its own stream. */
export class UpgradedStream extends Duplex {
  readonly #socket: Socket
  #inputEnded = false

  constructor(socket: Socket) {
    super({ allowHalfOpen: false })
    this.#socket = socket
    socket.on('end', () => this.#endInput())
    socket.on('error', (error) => this.destroy(error))
    socket.on('close', () => this.#endInput())
  }

  /** @returns `false` to pause the socket until `_read` */
  receive(bytes: Buffer, from: number, to: number): boolean {
    return this.push(copyOf(bytes, from, to))
  }

  override _read(): void {
    this.#socket.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, done)
  }

  override _final(done: () => void): void {
    if (this.#socket.destroyed) done()
    else this.#socket.end(() => done())
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy()
    done(error)
  }

  #endInput(): void {
    if (this.#inputEnded || this.destroyed) return
    this.#inputEnded = true
    this.push(null)
  }
}

export class ConnectionPool extends Pool<Http1Connection> {
  /** The last used is taken first, so that others reach their idle timeout. */
  readonly #idle: Http1Connection[] = []
  #open = 0

  lease(fresh: boolean, nowMs: number): Http1Connection | undefined {
    while (!fresh) {
      const connection = this.#idle.at(-1)
      if (connection === undefined) break
      if (nowMs < connection.idleUntilMs) return this.#idle.pop()
      connection.destroy()
    }
    return this.#open < this.maxConnections ? this.#connect() : this.#idle.pop()
  }

  free(connection: Http1Connection): void {
    if (this.isClosing) connection.destroy()
    else this.#idle.push(connection)
  }

  retired(connection: Http1Connection): void {
    this.#open -= 1
    this.deadlines.remove(connection)
    const at = this.#idle.lastIndexOf(connection)
    if (at >= 0) this.#idle.splice(at, 1)
  }

  protected retireAll(): void {
    for (const connection of this.#idle.splice(0)) connection.destroy()
  }

  #connect(): Http1Connection {
    this.#open += 1
    return this.opened(new Http1Connection(this))
  }
}
