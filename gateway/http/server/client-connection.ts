import type { Socket } from 'node:net'
import type { BodyPace } from '../bodies/body-pace.ts'
import type { Timed } from '../syntax/deadlines.ts'
import { Ahead } from './ahead.ts'
import type { Holder } from './connection-holders.ts'
import { awaitHalfClosed } from './half-closed.ts'
import type { Handler, Patience } from './handler.ts'
import { RequestBody } from './incoming-body.ts'
import { IncomingRequest, type Origin } from './incoming-request.ts'
import { Lingering } from './lingering.ts'
import { type RequestFault, RequestParser, skipEmptyLines } from './request-parser.ts'
import { Answer, type Carrier } from './response.ts'
import { Unread } from './unread.ts'
import { isWebSocketUpgrade } from './websocket.ts'

/** A client that trusts in the announced time must not meet the connection's end in the middle of a request. */
const KEEP_ALIVE_MARGIN_MS = 1000
const NEVER = Number.POSITIVE_INFINITY
const HEAD_LATE: RequestFault = { code: 'request_timeout', cause: 'its head did not come in time' }
const BODY_LATE: RequestFault = { code: 'request_timeout', cause: 'its body came too slowly, or not at all' }
const NOT_TAKEN: RequestFault = { code: 'response_timeout', cause: 'the client took nothing of its response' }
const GONE: RequestFault = { code: 'malformed_request', cause: 'the client ended in its middle' }

/** What all connections of one listener share. */
export interface ConnectionTerms<E> {
  readonly handler: Handler<E>
  readonly patience: Patience
  readonly bodyPace: BodyPace
  /** Wall time, milliseconds since the epoch. */
  readonly clock: () => number
  /** Milliseconds that only pass. */
  readonly steadyClock: () => number
  /** The connection is gone, or has become somebody else's. */
  readonly left: (connection: Connection<E>) => void
}

/**
 * Where a connection is. `idle`: between requests. `head`, `body`: in the middle of one. `answering`: the request is
 * whole, its answer is not. `deaf`: nothing that comes is a request any more, and the last one is being answered.
 * `lingering`: that is done too, and what still comes is thrown away. `detached`: it is a tunnel.
 */
type Phase = 'idle' | 'head' | 'body' | 'answering' | 'deaf' | 'lingering' | 'detached'

/**
 * One downstream connection, and the requests that come on it, carried out one after the other: started side by side,
 * two transfers could be carried out in the wrong order (RFC 9112 section 9.3.2). What comes ahead of its turn waits
 * unread, in a bounded number of bytes.
 */
export class Connection<E> implements Timed, Carrier {
  slot = -1
  readonly socket: Socket
  /** The address of the other end. */
  readonly peer: string
  readonly holder: Holder
  readonly #terms: ConnectionTerms<E>
  readonly #parser = new RequestParser()
  #phase: Phase = 'idle'
  #deadlineMs: number
  /** The client has closed its half. */
  #ended = false
  /** What has come ahead of its turn. */
  #ahead: Ahead | undefined = undefined
  /** The request that is being read came ahead of its turn. */
  #cameAhead = false
  /** When the request that is being read began; known only of one that did not come all at once. */
  #startedMs = NEVER
  /** When the time for the whole request is over; that in which we held its body back does not count. */
  #requestEndMs = NEVER
  #heldBackMs = NEVER
  /** There is something that the client has not taken yet, and no room for more. */
  #unread: Unread | undefined = undefined
  #lingering: Lingering | undefined = undefined
  /** A response has been given. */
  #used = false
  #req: IncomingRequest | undefined = undefined
  #res: Answer | undefined = undefined
  #exchange: E | undefined = undefined

  /** @param origin taken while the other end was there: a socket that has gone does not know it. */
  constructor(socket: Socket, origin: Pick<Origin, 'peer' | 'holder'>, terms: ConnectionTerms<E>) {
    this.socket = socket
    this.peer = origin.peer
    this.holder = origin.holder
    this.#terms = terms
    this.#deadlineMs = terms.steadyClock() + terms.patience.headersMs
    socket.setNoDelay(true)
    socket.on('data', this.#onData)
    socket.on('end', this.#onEnd)
    socket.on('close', this.#onClose)
    // A broken record of TLS does not end its socket by itself.
    socket.on('error', () => socket.destroy())
  }

  get clock(): () => number {
    return this.#terms.clock
  }

  get keepAliveSeconds(): number {
    return Math.floor(this.#terms.patience.keepAliveMs / 1000)
  }

  /** Nothing has been asked that is not answered, and every byte of the answer is on its way. */
  get isIdle(): boolean {
    return this.#phase === 'idle' && !this.#hasAhead && this.socket.writableLength === 0
  }

  get #hasAhead(): boolean {
    return this.#ahead?.isEmpty === false
  }

  /** Of an idle one. */
  get idleSinceMs(): number {
    const { headersMs, keepAliveMs } = this.#terms.patience
    return this.#deadlineMs - (this.#used ? keepAliveMs + KEEP_ALIVE_MARGIN_MS : headersMs)
  }

  /** When its time is up; an idle one with an earlier end has been idle for longer. */
  get deadlineMs(): number {
    return this.#lingering?.deadlineMs ?? this.#deadlineMs
  }

  checkTime(nowMs: number): void {
    if (this.#unread !== undefined) this.#lookAtUnread(this.#unread, nowMs)
    if (nowMs < this.deadlineMs || this.socket.destroyed) return
    if (this.#phase === 'head') this.#unreadable(HEAD_LATE)
    else if (this.#phase === 'body') this.#break(BODY_LATE)
    else {
      if (this.socket.writableLength > 0) this.#watchUnread(undefined)
      if (this.#lingering !== undefined) this.#lingering.timeUp(nowMs)
      // A client that takes its time over an answer is not between requests yet.
      else if (this.socket.writableLength > 0) this.#rest()
      else this.socket.destroy()
    }
  }

  heldUp({ idleMs }: Answer): void {
    this.#watchUnread(idleMs)
  }

  #watchUnread(idleMs: number | undefined): void {
    const { patience, steadyClock } = this.#terms
    this.#unread ??= new Unread(this.socket, idleMs ?? patience.idleMs, steadyClock())
  }

  #lookAtUnread(unread: Unread, nowMs: number): void {
    const found = unread.look(nowMs)
    if (found === 'unknown') return
    this.#unread = undefined
    if (found === 'all taken') return
    // First, so that what came of the request is told by its cause and not by the end of the connection.
    if (this.#exchange !== undefined) this.#terms.handler.interrupt(this.#exchange, NOT_TAKEN)
    this.socket.destroy()
  }

  answered(answer: Answer): void {
    if (answer !== this.#res) return
    const body = this.#req?.complete === false ? this.#req.body : null
    this.#exchange = undefined
    this.#req = undefined
    this.#res = undefined
    answer.close()
    body?.destroy()
    if (this.socket.destroyed) {
      this.#forgetBehind(answer)
      return
    }
    if (this.#phase !== 'answering' || !answer.keepAlive) this.#linger()
    // A client that does not read its answers gets no further ones.
    else if (this.socket.writableNeedDrain) {
      this.#watchUnread(answer.idleMs)
      this.socket.once('drain', () => this.#goOn())
    } else this.#goOn()
  }

  /** Room for another request. */
  #goOn(): void {
    if (this.#hasAhead) this.#takeUpSoon()
    else if (this.#ended) this.#linger()
    else this.#rest()
  }

  /** Between requests. */
  #rest(): void {
    this.#phase = 'idle'
    this.#used = true
    this.#parser.rest()
    this.#deadlineMs = this.#terms.steadyClock() + this.#terms.patience.keepAliveMs + KEEP_ALIVE_MARGIN_MS
  }

  detach(): Socket {
    const { socket } = this
    const ahead = this.#ahead?.take()
    this.#phase = 'detached'
    this.#ahead = undefined
    socket.off('data', this.#onData)
    socket.off('end', this.#onEnd)
    socket.off('close', this.#onClose)
    socket.pause()
    if (ahead !== undefined) socket.unshift(ahead)
    this.#terms.left(this)
    this.#res?.close()
    return socket
  }

  readonly #onData = (bytes: Buffer): void => {
    if (this.#phase === 'answering') this.#keep(bytes)
    else if (this.#phase === 'lingering') this.#lingering?.throwAway(this.#terms.steadyClock())
    else if (this.#phase !== 'deaf') this.#read(bytes)
  }

  readonly #onEnd = (): void => {
    this.#ended = true
    if (this.#phase === 'answering' || this.#phase === 'deaf') awaitHalfClosed(this.socket)
    else if (this.#phase === 'lingering') this.socket.destroySoon()
    else this.#endWithin()
  }

  readonly #onClose = (): void => {
    if (this.#phase === 'detached') return
    this.#terms.left(this)
    this.#leave()
    // What came ahead is never begun, and costs nothing more than to say how much it was.
    const requests = this.#ahead?.requests ?? 0
    this.#ahead = undefined
    if (requests > 0) this.#terms.handler.abandoned(this.peer, requests)
  }

  /** The client is gone: so is what it asked for. */
  #leave(): void {
    const answer = this.#res
    this.#req?.body?.destroy()
    this.#exchange = undefined
    this.#req = undefined
    this.#res = undefined
    if (answer === undefined) return
    this.#forgetBehind(answer)
    answer.close()
  }

  /** What comes behind the last request of a connection is none. */
  #forgetBehind(answer: Answer): void {
    if (answer.keepAlive) return
    this.#phase = 'deaf'
    this.#ahead = undefined
  }

  /** The client has closed its half where no answer is owed, or before its request was whole. */
  #endWithin(): void {
    if (this.#phase === 'idle') this.#linger()
    else if (this.#phase === 'head') {
      this.socket.destroy()
      this.#unreadable(GONE)
    } else if (this.#phase === 'body') this.socket.destroy()
  }

  #keep(bytes: Buffer): void {
    this.#ahead ??= new Ahead()
    if (this.#cameAhead) this.#ahead.putBack(bytes)
    else this.#ahead.add(bytes)
    if (this.#ahead.isFull) this.socket.pause()
  }

  /** Many that came ahead and can be answered at once must not keep others from their turn. */
  #takeUpSoon(): void {
    setImmediate(() => {
      if (this.#phase !== 'answering' || this.#res !== undefined || this.socket.destroyed) return
      this.#takeUp()
      if (this.#ended) this.#endWithin()
    })
  }

  #takeUp(): void {
    const bytes = this.#ahead?.take()
    if (bytes === undefined) return
    this.#rest()
    this.#cameAhead = true
    this.socket.resume()
    this.#read(bytes)
    this.#cameAhead = false
  }

  /**
   * A request is begun when all that has come of it has been read: one that cannot become whole is never begun as if it
   * could, and a short body is there at once.
   */
  #read(bytes: Buffer): void {
    const parser = this.#parser
    let at = 0
    if (this.#phase === 'idle') {
      at = skipEmptyLines(bytes)
      if (at === bytes.length) return
      parser.begin()
      this.#phase = 'head'
      this.#startedMs = NEVER
    }
    const isNew = this.#phase === 'head'
    if (isNew) {
      at = parser.readHead(bytes, at)
      if (parser.fault !== undefined) {
        this.#unreadable(parser.fault)
        return
      }
      if (!parser.headWhole) {
        if (this.#startedMs === NEVER) this.#startedMs = this.#terms.steadyClock()
        this.#deadlineMs = this.#startedMs + this.#terms.patience.headersMs
        return
      }
      this.#headWhole()
    } else this.#keepPace(bytes.length)
    if (this.#phase === 'body') {
      at = parser.readBody(bytes, at, this.#takePiece)
      // What was read may have been refused and answered meanwhile.
      if (parser.whole && this.#isReadingBody) this.#requestWhole()
    }
    if (this.#phase === 'answering' && at < bytes.length) this.#keep(bytes.subarray(at))
    if (isNew) this.#begin(parser.fault)
    else if (parser.fault !== undefined) this.#break(parser.fault)
  }

  #headWhole(): void {
    const { lines } = this.#parser
    const req = new IncomingRequest(this, this.#parser)
    const { headers } = req
    const isOpaque = headers.fault !== undefined || req.method === 'CONNECT'
    const keepsOpen = req.version === '1.1' || lines.keeps
    this.#req = req
    this.#res = new Answer(this, req, keepsOpen && !lines.closes && !lines.upgrades && !isOpaque)
    // Where its body would end is in doubt, or what follows is no HTTP.
    if (isOpaque) this.#phase = 'deaf'
    else {
      this.#parser.frame(headers.contentLength ?? (headers.hasBody ? 'chunks' : 0))
      if (headers.hasBody) this.#awaitBody(req)
      else this.#requestWhole()
    }
  }

  get #isReadingBody(): boolean {
    return this.#phase === 'body'
  }

  #awaitBody(req: IncomingRequest): void {
    req.body = new RequestBody(() => this.#bodyWanted())
    this.#phase = 'body'
    const { bodyPace, patience, steadyClock } = this.#terms
    const nowMs = steadyClock()
    this.#requestEndMs = Math.min(this.#startedMs, nowMs) + patience.requestMs
    this.#deadlineMs = Math.min(bodyPace.begin(nowMs), this.#requestEndMs)
  }

  /** More of a body has come. */
  #keepPace(bytes: number): void {
    const { bodyPace, steadyClock } = this.#terms
    this.#deadlineMs = Math.min(bodyPace.extend(this.#deadlineMs, bytes, steadyClock()), this.#requestEndMs)
  }

  readonly #takePiece = (piece: Buffer): void => {
    if (this.#req?.body?.push(piece) !== false || this.socket.isPaused()) return
    this.socket.pause()
    // It is not the client that is waited for.
    this.#heldBackMs = this.#terms.steadyClock()
    this.#deadlineMs = NEVER
  }

  #bodyWanted(): void {
    if (this.#phase !== 'body' || !this.socket.isPaused()) return
    const nowMs = this.#terms.steadyClock()
    this.#requestEndMs += nowMs - this.#heldBackMs
    this.#deadlineMs = Math.min(this.#terms.bodyPace.begin(nowMs), this.#requestEndMs)
    this.socket.resume()
  }

  #requestWhole(): void {
    const req = this.#req
    this.#phase = 'answering'
    this.#deadlineMs = NEVER
    if (req === undefined) return
    req.completed()
    if (req.body !== null) {
      req.body.push(null)
      // The body may have been held back; what comes behind it has its own bound.
      this.socket.resume()
    }
  }

  #begin(fault: RequestFault | undefined): void {
    const [req, res] = [this.#req, this.#res]
    if (req === undefined || res === undefined) return
    if (fault !== undefined) this.#stopListening(res)
    // Behind another one the client cannot know yet whether the connection goes on.
    const upgrade = !this.#cameAhead && this.#parser.lines.upgrades && isWebSocketUpgrade(req)
    const exchange = this.#terms.handler.begin(
      { req, res, upgrade: upgrade ? 'websocket' : undefined },
      fault,
    )
    if (this.#res === res) this.#exchange = exchange
  }

  #unreadable(fault: RequestFault): void {
    const req = new IncomingRequest(this, this.#parser)
    const res = new Answer(this, req, false)
    this.#req = req
    this.#res = res
    this.#stopListening(res)
    this.#terms.handler.unreadable({ req, res, upgrade: undefined }, fault)
  }

  #break(fault: RequestFault): void {
    const [res, exchange] = [this.#res, this.#exchange]
    if (res === undefined || exchange === undefined) return
    this.#stopListening(res)
    this.#terms.handler.interrupt(exchange, fault)
  }

  #stopListening(res: Answer): void {
    this.#phase = 'deaf'
    this.#deadlineMs = NEVER
    res.keepAlive = false
  }

  #linger(): void {
    this.#phase = 'lingering'
    this.#ahead = undefined
    this.#lingering = new Lingering(this.socket, this.#ended, this.#terms.steadyClock())
  }
}
