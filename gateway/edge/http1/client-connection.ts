import type { Socket } from 'node:net'
import type { Timed } from '../syntax/deadlines.ts'
import type { AcceptedConnection, ClientNetwork } from './client-networks.ts'
import { ClientResponse, type DetachedSocket, type ResponseConnection } from './client-response.ts'
import type { ConnectionPhase, ConnectionTerms } from './connection-terms.ts'
import { BODY_LATE, CLIENT_GONE, HEAD_LATE, NOT_TAKEN, type RequestFault } from './handler.ts'
import type { IncomingRequest } from './incoming-request.ts'
import { Lingering, watchHalfClosed } from './lingering.ts'
import { PipelinedBytes } from './pipelined-bytes.ts'
import { RequestReader, skipEmptyLines } from './request-reader.ts'
import { type ClientReader, readClient } from './sockets/client-socket.ts'
import { WriteWatch } from './sockets/write-watch.ts'

/** The first line of the HTTP/2 preface (RFC 9113 section 3.4). */
const HTTP2_BEGIN = 'PRI * HTTP/2.0\r\n'

/** Handles requests one by one: two payments must not be reordered (RFC 9112 section 9.3.2). */
export class Connection<E> implements Timed, ResponseConnection, ClientReader {
  slot = -1
  readonly socket: Socket
  readonly accepted: AcceptedConnection
  readonly peer: string
  readonly network: ClientNetwork
  readonly terms: ConnectionTerms<E, Connection<E>>
  isLast = false
  /** True until a request or an empty line comes. Until then the client may begin HTTP/2. */
  isFresh = true
  readonly #reader: RequestReader
  readonly pipelined: PipelinedBytes
  readonly #writes: WriteWatch
  readonly #stopReading: ReturnType<typeof readClient>
  #phase: ConnectionPhase = 'idle'
  #ended = false
  #lingering: Lingering | undefined = undefined
  #req: IncomingRequest | undefined = undefined
  #res: ClientResponse | undefined = undefined
  #exchange: E | undefined = undefined

  /** @param socket the accepted one, or the TLS socket over it */
  constructor(socket: Socket, accepted: AcceptedConnection, terms: ConnectionTerms<E, Connection<E>>) {
    this.socket = socket
    this.accepted = accepted
    // This was read at accept, because a closed socket knows no address.
    this.peer = accepted.peer
    this.network = accepted.network
    this.terms = terms
    this.#reader = new RequestReader(this, terms)
    this.pipelined = new PipelinedBytes(socket)
    this.#writes = new WriteWatch(socket, terms.steadyClock)
    socket.setNoDelay(true)
    this.#stopReading = readClient(socket, this)
    socket.on('end', this.clientEnded)
    socket.on('close', this.#onClose)
    // After a broken TLS record the socket does not close by itself.
    socket.on('error', () => socket.destroy())
  }

  get isIdle(): boolean {
    return this.#phase === 'idle' && this.pipelined.isEmpty && this.socket.writableLength === 0
  }

  get idleSinceMs(): number {
    return this.#reader.deadline.idleSinceMs
  }

  get deadlineMs(): number {
    return this.#lingering?.deadlineMs ?? this.#reader.deadline.atMs
  }

  checkTime(nowMs: number): void {
    this.#reader.readAhead()
    if (this.#writes.isStalled(nowMs)) {
      // This comes before `destroy`, so that the record of the request names this cause.
      if (this.#exchange !== undefined) this.terms.handler.interrupt(this.#exchange, NOT_TAKEN)
      this.socket.destroy()
    }
    if (nowMs < this.deadlineMs || this.socket.destroyed) return
    if (this.#phase === 'head') this.#refuseHead(HEAD_LATE)
    else if (this.#phase === 'body') this.#interrupt(BODY_LATE)
    else {
      if (this.socket.writableLength > 0) this.#writes.beginUnlessBegun(this.terms.timeouts.idleMs)
      if (this.#lingering !== undefined) this.#lingering.timeUp(nowMs)
      // The client still takes its last response.
      else if (this.socket.writableLength > 0) this.#becomeIdle()
      else this.socket.destroy()
    }
  }

  watchWrites(idleMs: number | undefined): void {
    this.#writes.begin(idleMs ?? this.terms.timeouts.idleMs)
  }

  responseWritten(response: ClientResponse): void {
    if (response !== this.#res) return
    const incompleteBody = this.#req?.complete === false ? this.#req.body : null
    this.#forgetRequest()
    response.close()
    incompleteBody?.destroy()
    if (this.socket.destroyed) this.#dropPipelinedAfter(response)
    else if (this.#phase !== 'response' || !response.keepAlive) this.#linger()
    // A client that does not take its responses gets no further ones.
    else if (this.socket.writableNeedDrain) {
      this.watchWrites(response.idleMs)
      this.socket.once('drain', () => this.#nextRequest())
    } else this.#nextRequest()
  }

  #forgetRequest(): void {
    this.#exchange = undefined
    this.#req = undefined
    this.#res = undefined
  }

  #nextRequest(): void {
    if (this.terms.between !== undefined) this.terms.between(this)
    else if (!this.pipelined.isEmpty) this.#readPipelined()
    else if (this.#ended) this.#linger()
    else this.#becomeIdle()
  }

  #becomeIdle(): void {
    this.#enter('idle')
    this.#reader.idle()
  }

  /** True when the socket can be detached without loss. */
  get isBetween(): boolean {
    return (this.#phase === 'idle' || this.#phase === 'head') && !this.socket.destroyed
  }

  detach(): DetachedSocket {
    const { socket } = this
    const unread = this.#phase === 'head' ? this.#reader.partialHead : this.pipelined.take()
    this.#enter('detached')
    socket.off('end', this.clientEnded)
    socket.off('close', this.#onClose)
    this.terms.left(this)
    this.#res?.close()
    return { socket, unread: this.#stopReading(unread) }
  }

  received(bytes: Buffer, length: number): void {
    if (this.#phase === 'response') this.pipelined.keep(bytes, 0, length)
    else if (this.#phase === 'lingering') this.#lingering?.throwAway(this.terms.steadyClock())
    else if (this.#phase !== 'last response') this.#read(bytes, length)
  }

  readonly clientEnded = (): void => {
    this.#ended = true
    if (this.#isIn('response') || this.#isIn('last response')) watchHalfClosed(this.socket, () => this.#res)
    else if (this.#phase === 'lingering') this.socket.destroySoon()
    else this.#endEarly()
  }

  #endEarly(): void {
    if (this.#phase === 'idle') this.#linger()
    else if (this.#phase === 'head') {
      this.socket.destroy()
      this.#refuseHead(CLIENT_GONE)
    } else if (this.#phase === 'body') this.socket.destroy()
  }

  readonly #onClose = (): void => {
    if (this.#phase === 'detached') return
    this.terms.left(this)
    this.#reader.close()
    this.#cancelRequest()
    if (!this.pipelined.isEmpty) this.terms.handler.abandoned(this.peer, this.pipelined.requests)
    this.pipelined.drop()
  }

  #cancelRequest(): void {
    const response = this.#res
    this.#req?.body?.destroy()
    this.#forgetRequest()
    if (response === undefined) return
    this.#dropPipelinedAfter(response)
    response.close()
  }

  /** Bytes behind the last request of a connection are no request. */
  #dropPipelinedAfter(response: ClientResponse): void {
    if (response.keepAlive) return
    this.#enter('last response')
    this.pipelined.drop()
  }

  /** Reads in a later turn, so that a long pipeline does not starve other connections. */
  #readPipelined(): void {
    setImmediate(() => {
      if (this.#phase !== 'response' || this.#res !== undefined || this.socket.destroyed) return
      if (this.terms.between !== undefined) return this.terms.between(this)
      const bytes = this.pipelined.take()
      if (bytes !== undefined) {
        this.#becomeIdle()
        this.pipelined.isBeingRead = true
        this.socket.resume()
        this.#read(bytes, bytes.length)
        this.pipelined.isBeingRead = false
      }
      if (this.#ended) this.#endEarly()
    })
  }

  #read(bytes: Buffer, length: number): void {
    const reader = this.#reader
    let at = 0
    if (this.#phase === 'idle') {
      at = skipEmptyLines(bytes, length)
      if (at > 0) this.isFresh = false
      if (at === length) return
      reader.begin()
      this.#enter('head')
    }
    if (this.#isIn('head')) this.#readHead(bytes, at, length)
    else {
      reader.deadline.extendBody(length)
      this.#readBody(bytes, at, length)
      if (reader.fault !== undefined) this.#interrupt(reader.fault)
    }
  }

  /** Reads a head, then calls the handler once all bytes at hand are parsed, so that a fault among them is known. */
  #readHead(bytes: Buffer, from: number, to: number): void {
    const reader = this.#reader
    const at = reader.readHead(bytes, from, to)
    if (reader.fault !== undefined) {
      if (this.#beginsHttp2(bytes, from)) {
        reader.keepPartial(bytes, from, to)
        this.terms.toHttp2?.(this)
      } else this.#refuseHead(reader.fault)
    }
    if (!reader.isHeadComplete) return
    this.isFresh = false
    const req = reader.request()
    const res = new ClientResponse(this, req, reader.allowsReuse && !this.isLast)
    this.#req = req
    this.#res = res
    if (req.isOpaque) this.#expectNothing(res)
    else {
      reader.expectBody(req)
      if (req.body === null) this.#requestComplete()
      else this.#enter('body')
      this.#readBody(bytes, at, to)
    }
    this.#begin(reader.fault)
  }

  /** @param bytes what follows the bytes that the reader keeps */
  #beginsHttp2(bytes: Buffer, from: number): boolean {
    const isPossible = this.terms.toHttp2 !== undefined && this.isFresh && !this.isLast
    if (!isPossible || 'encrypted' in this.socket) return false
    const { length } = HTTP2_BEGIN
    const before = this.#reader.partialHead?.toString('latin1', 0, length) ?? ''
    return (before + bytes.toString('latin1', from, from + length)).startsWith(HTTP2_BEGIN)
  }

  #readBody(bytes: Buffer, from: number, to: number): void {
    const at = this.#isIn('body') ? this.#reader.readBody(bytes, from, to) : from
    // The handler may have ended the request while it took these pieces.
    if (this.#reader.isComplete && this.#isIn('body')) this.#requestComplete()
    if (this.#isIn('response') && at < to) this.pipelined.keep(bytes, at, to)
  }

  #requestComplete(): void {
    this.#enter('response')
    this.#reader.deadline.stop()
    this.#req?.markComplete()
  }

  #begin(fault: RequestFault | undefined): void {
    const [req, res] = [this.#req, this.#res]
    if (req === undefined || res === undefined) return
    if (fault !== undefined) this.#expectNothing(res)
    // A client must not switch protocols before it has the responses to earlier requests.
    const upgrade = this.pipelined.isBeingRead ? undefined : this.#reader.upgradeOf(req)
    const exchange = this.terms.handler.begin({ req, res, upgrade }, fault)
    if (this.#res === res) this.#exchange = exchange
  }

  #refuseHead(fault: RequestFault): void {
    const req = this.#reader.request()
    const res = new ClientResponse(this, req, false)
    this.#req = req
    this.#res = res
    this.#expectNothing(res)
    this.terms.handler.unreadable({ req, res, upgrade: undefined }, fault)
  }

  #interrupt(fault: RequestFault): void {
    const [res, exchange] = [this.#res, this.#exchange]
    if (res === undefined || exchange === undefined) return
    this.#expectNothing(res)
    this.terms.handler.interrupt(exchange, fault)
  }

  #expectNothing(res: ClientResponse): void {
    this.#enter('last response')
    this.#reader.deadline.stop()
    res.keepAlive = false
  }

  #linger(): void {
    this.#enter('lingering')
    this.pipelined.drop()
    this.#lingering = new Lingering(this.socket, this.#ended, this.terms.steadyClock())
  }

  #isIn(phase: ConnectionPhase): boolean {
    return this.#phase === phase
  }

  #enter(phase: ConnectionPhase): void {
    this.terms.onPhase?.(this.#phase, phase)
    this.#phase = phase
  }
}
