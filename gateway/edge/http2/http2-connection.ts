import type { Socket } from 'node:net'
import type { ClientNetwork } from '../http1/client-networks.ts'
import { type HeadBounds, KEEP_ALIVE_MARGIN_MS } from '../http1/connection-deadline.ts'
import type { ConnectionTerms, Http2Protocol, ServedConnection } from '../http1/connection-terms.ts'
import { NOT_TAKEN, type RequestFault } from '../http1/handler.ts'
import type { Origin } from '../http1/incoming-request.ts'
import { Lingering } from '../http1/lingering.ts'
import { WriteWatch } from '../http1/sockets/write-watch.ts'
import { Arrivals } from './arrivals.ts'
import { ClientStream } from './client-stream.ts'
import { CONNECTION_WINDOW, ConnectionFrames, type FrameUser } from './connection-frames.ts'
import { ConnectionGuard } from './connection-guard.ts'
import { FrameReader } from './frame-reader.ts'
import {
  ClientSettings,
  DEFAULT_WINDOW,
  ENHANCE_YOUR_CALM,
  FrameWriter,
  frameOfNumbers,
  GOAWAY,
  NO_ERROR,
  PREFACE,
  PROTOCOL_ERROR,
  RST_STREAM,
  SETTINGS_MAX_CONCURRENT_STREAMS,
  SETTINGS_MAX_HEADER_LIST_SIZE,
  settingsFrame,
  WINDOW_UPDATE,
} from './frames.ts'
import type { StreamBody } from './stream-body.ts'
import type { StreamHead } from './stream-head.ts'
import { isWithoutPlace, MAX_STREAMS, type StreamEnd, StreamPlaces, StreamTable } from './stream-table.ts'

/** RFC 9113 section 3.4. */
function greeting(maxHeadBytes: number): Buffer {
  return Buffer.concat([
    settingsFrame([
      [SETTINGS_MAX_CONCURRENT_STREAMS, MAX_STREAMS],
      [SETTINGS_MAX_HEADER_LIST_SIZE, maxHeadBytes],
    ]),
    frameOfNumbers(WINDOW_UPDATE, 0, CONNECTION_WINDOW - DEFAULT_WINDOW),
  ])
}

/** A read of more frames than this makes the next one wait for a later turn of the loop: frames may be very short. */
const FRAMES_PER_TURN = 1000
/** While more bytes wait for a client, we read none of its frames. */
const MAX_UNREAD_BYTES = 256 * 1024
const NEVER = Number.POSITIVE_INFINITY

/** RFC 9113. The streams are handled side by side. */
class Http2Connection<E> implements ServedConnection, FrameUser<E> {
  slot = -1
  readonly socket: Socket
  readonly peer: string
  readonly network: ClientNetwork
  readonly terms: ConnectionTerms<E>
  readonly isSecure: boolean
  readonly streams = new StreamTable<ClientStream<E>>()
  readonly settings = new ClientSettings()
  readonly guard: ConnectionGuard
  sendWindow = DEFAULT_WINDOW
  dataSentMs = 0
  readonly head: HeadBounds
  readonly #frames = new ConnectionFrames(this)
  readonly #reader = new FrameReader(this.#frames)
  readonly write: FrameWriter['write']
  readonly #writer: FrameWriter
  readonly #writes: WriteWatch
  #prefaceLength = 0
  /** Requests that have not begun, also those that have been reset meanwhile. */
  readonly #arrivals = new Arrivals<ClientStream<E>>((stream) =>
    stream.isOver ? this.terms.handler.abandoned(this.peer, 1) : this.#begin(stream),
  )
  readonly joining: StreamBody[] = []
  /** The last stream taken, which GOAWAY names, and the last begun, which it names after a fault. */
  #lastTaken = 0
  #lastBegun = 0
  readonly #places: StreamPlaces
  #isRetiring = false
  #lingering: Lingering | undefined = undefined
  /** Infinite while streams are open. */
  #idleEndMs: number
  /** The time by which the rest of a frame or of a head must have come. */
  #partialEndMs = NEVER
  #partialFrame = 0

  constructor(socket: Socket, { peer, network }: Omit<Origin, 'socket'>, terms: ConnectionTerms<E>) {
    this.socket = socket
    this.peer = peer
    this.network = network
    this.terms = terms
    this.head = terms.head
    this.isSecure = 'encrypted' in socket
    this.guard = new ConnectionGuard(terms.steadyClock)
    this.#writer = new FrameWriter(socket, () => {
      if (socket.writableNeedDrain) this.#writes.begin(terms.timeouts.idleMs)
    })
    this.write = this.#writer.write
    this.#writes = new WriteWatch(socket, terms.steadyClock)
    this.#places = new StreamPlaces(terms.networks, network)
    this.#idleEndMs = terms.steadyClock() + terms.timeouts.headersMs
    socket.setNoDelay(true)
    socket.on('data', this.#onData)
    socket.on('drain', this.#onDrain)
    // A client that has closed its half can ask nothing more, and cannot open a window.
    socket.on('end', () => (this.#lingering === undefined ? socket.destroy() : socket.destroySoon()))
    socket.on('close', this.#onClose)
    socket.on('error', () => socket.destroy())
    socket.write(greeting(this.head.maxBytes))
  }

  get isIdle(): boolean {
    return this.streams.size === 0 && this.unsentBytes === 0
  }

  get deadlineMs(): number {
    return this.#lingering?.deadlineMs ?? this.#idleEndMs
  }

  get isOver(): boolean {
    return this.#lingering !== undefined || this.socket.destroyed
  }

  get unsentBytes(): number {
    return this.#writer.unsentBytes
  }

  get isCongested(): boolean {
    return this.socket.writableNeedDrain
  }

  checkTime(nowMs: number): void {
    if (this.#writes.isStalled(nowMs)) {
      // This comes before `destroy`, so that the records of the requests name this cause.
      this.streams.visitAll(({ exchange }) => {
        if (exchange !== undefined) this.interrupt(exchange, NOT_TAKEN)
      })
      this.socket.destroy()
    } else if (this.#lingering !== undefined) {
      if (nowMs >= this.#lingering.deadlineMs) this.#lingering.timeUp(nowMs)
    } else if (nowMs >= this.#partialEndMs) this.fail(ENHANCE_YOUR_CALM)
    else if (nowMs >= this.#idleEndMs) this.retire()
    else {
      const { idleMs } = this.terms.timeouts
      this.streams.visitAll((stream) => stream.checkTime(nowMs, idleMs))
    }
  }

  retire(): void {
    if (this.isOver) return
    if (!this.#isRetiring) this.write(frameOfNumbers(GOAWAY, 0, this.#lastTaken, NO_ERROR))
    this.#isRetiring = true
    if (this.streams.size === 0) this.#linger()
  }

  fail(code: number): void {
    if (this.isOver) return
    this.write(frameOfNumbers(GOAWAY, 0, this.#lastBegun, code))
    this.#linger()
    this.#loseStreams()
  }

  #linger(): void {
    this.#writer.flush()
    this.#lingering = new Lingering(this.socket, this.socket.readableEnded, this.terms.steadyClock())
    // An ending socket never has `writableNeedDrain`, so the watch begins here.
    if (this.socket.writableLength > 0) this.#writes.beginUnlessBegun(this.terms.timeouts.idleMs)
  }

  resetStream(id: number, code: number): void {
    const stream = this.streams.get(id)
    if (stream !== undefined) stream.end(code)
    else {
      this.streams.end(id, 'reset by us')
      this.write(frameOfNumbers(RST_STREAM, id, code))
    }
  }

  pumpAll(): void {
    this.streams.takeTurns(({ res }) => {
      res.pump()
      return !this.isCongested && this.sendWindow > 0
    })
  }

  open(id: number, head: StreamHead, endsStream: boolean): void {
    const place = this.#isRetiring ? undefined : this.#places.take()
    if (place !== undefined) {
      this.#lastTaken = id
      this.#idleEndMs = NEVER
      const stream = new ClientStream<E>(this, id, { head, place, ended: endsStream })
      this.streams.add(stream)
      this.#arrivals.add(stream)
    } else {
      // After GOAWAY the client repeats the request on another connection (RFC 9113 section 6.8).
      this.retire()
      this.streams.end(id, 'reset by us')
    }
    if ((place === undefined || isWithoutPlace(place)) && !this.guard.allowsNoise())
      this.fail(ENHANCE_YOUR_CALM)
  }

  #begin(stream: ClientStream<E>): void {
    const { req, res, fault } = stream
    if (fault === undefined) this.guard.requestBegun()
    this.#lastBegun = stream.id
    stream.begun = true
    const exchange = this.terms.handler.begin({ req, res, upgrade: undefined }, fault)
    if (!stream.isOver) stream.exchange = exchange
  }

  interrupt(exchange: E, fault: RequestFault): void {
    this.terms.handler.interrupt(exchange, fault)
    // The upstream request is cancelled, so this counts like a reset by the client.
    if (fault.code === 'malformed_request' && !this.guard.allowsReset()) this.fail(ENHANCE_YOUR_CALM)
  }

  ended(stream: ClientStream<E>, how: StreamEnd, code?: number): void {
    this.streams.end(stream.id, how)
    this.#places.leave(stream.place)
    if (code !== undefined && !this.isOver) this.write(frameOfNumbers(RST_STREAM, stream.id, code))
    if (this.terms.isLeaving()) this.retire()
    if (this.streams.size > 0) return
    const { steadyClock, timeouts } = this.terms
    this.#idleEndMs = steadyClock() + timeouts.keepAliveMs + KEEP_ALIVE_MARGIN_MS
    if (this.#isRetiring) this.retire()
  }

  #loseStreams(): void {
    const abandoned = this.#arrivals.drop()
    if (abandoned > 0) this.terms.handler.abandoned(this.peer, abandoned)
    this.streams.visitAll((stream) => stream.reset())
  }

  readonly #onData = (bytes: Buffer): void => {
    if (this.#lingering === undefined) this.#read(bytes)
    else this.#lingering.throwAway(this.terms.steadyClock())
  }

  #read(bytes: Buffer): void {
    const from = this.#readPreface(bytes)
    if (from === undefined) {
      this.fail(PROTOCOL_ERROR)
      return
    }
    const framesBefore = this.#reader.begun
    this.#reader.read(bytes, from)
    if (this.joining.length > 0) for (const body of this.joining.splice(0)) body.passJoined()
    this.#arrivals.readOver()
    this.#watchPartial()
    this.#writer.flush()
    if (this.#lingering !== undefined) return
    const hasMany = this.#reader.begun - framesBefore > FRAMES_PER_TURN
    if (hasMany)
      setImmediate(() => {
        if (this.unsentBytes <= MAX_UNREAD_BYTES) this.socket.resume()
      })
    if (hasMany || this.unsentBytes > MAX_UNREAD_BYTES) this.socket.pause()
  }

  /** @returns where the frames begin; undefined when the bytes are no preface */
  #readPreface(bytes: Buffer): number | undefined {
    const before = this.#prefaceLength
    if (before === PREFACE.length) return 0
    const length = Math.min(bytes.length, PREFACE.length - before)
    this.#prefaceLength += length
    const isPreface = bytes.toString('latin1', 0, length) === PREFACE.slice(before, this.#prefaceLength)
    return isPreface ? length : undefined
  }

  #watchPartial(): void {
    if (!this.#reader.isPartial && !this.#frames.isInHead) this.#partialEndMs = NEVER
    else if (
      this.#partialEndMs === NEVER ||
      (this.#partialFrame !== this.#reader.begun && !this.#frames.isInHead)
    )
      this.#partialEndMs = this.terms.steadyClock() + this.terms.timeouts.headersMs
    this.#partialFrame = this.#reader.begun
  }

  readonly #onDrain = (): void => {
    if (this.#lingering === undefined) {
      this.pumpAll()
      // A closed window stops `pumpAll`, but some responses waited only for the socket.
      if (this.sendWindow <= 0) this.streams.visitAll(({ res }) => res.pump())
    }
    if (this.socket.isPaused()) this.socket.resume()
  }

  readonly #onClose = (): void => {
    this.terms.left(this)
    this.#loseStreams()
  }
}

export const http2: Http2Protocol = (socket, origin, terms) => new Http2Connection(socket, origin, terms)
