import type { ClientHttp2Stream } from 'node:http2'
import type { Field } from '../../edge/syntax/field.ts'
import { MAX_INTERIM } from '../message-head.ts'
import type { UpstreamFaultKind } from '../upstream-client.ts'
import { readFields, readResponseHead } from './stream-heads.ts'

/** Codes of RFC 9113 section 7. */
const INTERNAL_ERROR = 2
const REFUSED_STREAM = 7
const CANCEL = 8
/**
 * PROTOCOL_ERROR, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, COMPRESSION_ERROR, ENHANCE_YOUR_CALM and HTTP_1_1_REQUIRED.
 * Node resets a stream with them for an unacceptable response, an upstream for an unacceptable request.
 */
const MALFORMED: ReadonlySet<number> = new Set([1, 3, 6, 9, 11, 13])

/** After `USUAL_SHORT` pieces below `SHORT_BYTES`, the pieces of one turn are joined, at most `MAX_JOINED`. */
const SHORT_BYTES = 64
const USUAL_SHORT = 16
const MAX_JOINED = 4096

/** Either `lost` or `whole` is the last call. */
export interface StreamUser {
  interim(status: number, fields: readonly Field[]): void
  responded(status: number, fields: readonly Field[]): void
  piece(bytes: Buffer): boolean
  whole(trailers: readonly Field[] | undefined): void
  /** @param wasRefused true when the upstream has not looked at the request (RFC 9113 section 8.7) */
  lost(kind: UpstreamFaultKind, cause: string, wasRefused: boolean): void
}

export class UpstreamStream {
  readonly stream: ClientHttp2Stream
  responseBegan = false
  readonly #lastHandled: () => number
  #user: StreamUser | undefined
  #interims = 0
  #trailers: readonly Field[] | undefined = undefined
  /** True once END_STREAM has come. */
  #isComplete = false
  #isPaused = false
  #shortPieces = 0
  #isJoining = false
  /** Pieces that wait to be joined, or for the end of a pause. Node drops unread pieces with the connection. */
  #rest: Buffer[] = []
  /** True once Node has given all of a complete response. */
  #isRead = false
  #error: Error | undefined = undefined
  #isOver = false

  /** @param lastHandled the highest stream that the upstream may have handled */
  constructor(stream: ClientHttp2Stream, user: StreamUser, lastHandled: () => number) {
    this.stream = stream
    this.#user = user
    this.#lastHandled = lastHandled
    this.#watchEnd()
    stream.on('headers', (_headers, _flags, flat) =>
      this.#tell(() => this.#interim(flat as unknown as string[])),
    )
    stream.on('response', (_headers, _flags, flat) =>
      this.#tell(() => this.#head(flat as unknown as string[])),
    )
    stream.on('trailers', (_headers, _flags, flat) => this.#takeTrailers(flat as unknown as string[]))
    stream.on('data', (bytes: Buffer) => this.#tell(() => this.#data(bytes)))
    stream.on('end', () => this.#end())
    stream.on('error', (error: Error) => {
      this.#error = error
    })
    stream.on('close', () => this.#closed())
  }

  resume(): void {
    this.#isPaused = false
    this.#tell(() => this.#giveRest())
    if (!this.#isPaused) this.stream.resume()
  }

  leave(): void {
    this.#user = undefined
    if (this.#isOver) return
    this.#isOver = true
    this.#rest = []
    this.#isPaused = false
    if (!this.stream.closed) this.stream.close(CANCEL)
    // A stream ends only when all of it was read.
    this.stream.resume()
  }

  /** Fails the stream when the user throws, because nobody else would catch the error. */
  #tell(tell: () => void): void {
    try {
      tell()
    } catch (mistake) {
      this.#fail('broken', `an error in the receiver: ${mistake}`)
    }
  }

  /**
   * Notes END_STREAM. Node ends the readable side also at a reset with NO_ERROR or CANCEL, and with the connection; but
   * then the stream is closed already.
   */
  #watchEnd(): void {
    const { stream } = this
    const { push } = stream
    stream.push = (piece: unknown, encoding?: BufferEncoding) => {
      if (piece === null && !stream.closed) {
        this.#isComplete = true
        // Waits, because Node tells of trailers in the next tick too.
        if (this.#isPaused) process.nextTick(() => this.#readRest())
      }
      return push.call(stream, piece, encoding)
    }
  }

  #interim(flat: readonly string[]): void {
    this.responseBegan = true
    if (++this.#interims > MAX_INTERIM) {
      this.#fail('malformed', `more than ${MAX_INTERIM} interim responses`)
      return
    }
    const head = readResponseHead(flat)
    if (typeof head === 'string') this.#fail('malformed', head)
    else this.#user?.interim(head.status, head.fields)
  }

  #head(flat: readonly string[]): void {
    this.responseBegan = true
    const head = readResponseHead(flat)
    if (typeof head === 'string') this.#fail('malformed', head)
    else if (head.status < 200) this.#fail('malformed', 'an interim status as the final one')
    else this.#user?.responded(head.status, head.fields)
  }

  #takeTrailers(flat: readonly string[]): void {
    const fields = readFields(flat)
    if (typeof fields === 'string') this.#fail('malformed', fields)
    else this.#trailers = fields
  }

  #data(bytes: Buffer): void {
    if (bytes.length === 0) return
    if (this.#isPaused || this.#isJoining) this.#rest.push(bytes)
    else if (this.#user?.piece(bytes) === false) this.#pause()
    else if (bytes.length < SHORT_BYTES && ++this.#shortPieces > USUAL_SHORT) this.#join()
    if (this.#isJoining && this.#rest.length >= MAX_JOINED) this.#passJoined()
  }

  #join(): void {
    this.#isJoining = true
    setImmediate(() => this.#tell(() => this.#passJoined()))
  }

  #passJoined(): void {
    if (!this.#isJoining) return
    this.#isJoining = false
    if (this.#rest.length > 0 && this.#user?.piece(this.#takeRest()) === false) this.#pause()
  }

  #takeRest(): Buffer {
    const rest = this.#rest
    this.#rest = []
    return rest.length === 1 ? (rest[0] as Buffer) : Buffer.concat(rest)
  }

  #pause(): void {
    this.#isPaused = true
    this.stream.pause()
    if (this.#isComplete) this.#readRest()
  }

  /** Takes all that Node has read, at most the stream's window. It comes as `data`. */
  #readRest(): void {
    while (this.#isPaused && this.stream.read() !== null);
  }

  #giveRest(): void {
    if (!this.#isPaused && this.#rest.length > 0) this.#data(this.#takeRest())
    if (!this.#isPaused && this.#isRead) this.#end()
  }

  #end(): void {
    this.#tell(() => this.#passJoined())
    if (!this.#isComplete || !this.responseBegan) return
    this.#isRead = true
    if (this.#isPaused) return
    const user = this.#user
    const isSending = !this.stream.writableFinished
    this.#user = undefined
    this.#isOver = true
    if (isSending && !this.stream.closed) this.stream.close(CANCEL)
    user?.whole(this.#trailers)
  }

  #fail(kind: UpstreamFaultKind, cause: string): void {
    const user = this.#user
    this.leave()
    user?.lost(kind, cause, false)
  }

  #closed(): void {
    this.#tell(() => this.#passJoined())
    if (this.#isRead && !this.#isOver) return
    const { rstCode = INTERNAL_ERROR, id } = this.stream
    const wasRefused = rstCode === REFUSED_STREAM || (id !== undefined && id > this.#lastHandled())
    const kind = MALFORMED.has(rstCode) ? 'malformed' : 'broken'
    const cause =
      this.#error?.message ?? `the stream ended before the response was whole, with code ${rstCode}`
    const user = this.#user
    this.#user = undefined
    this.#isOver = true
    user?.lost(wasRefused ? 'broken' : kind, cause, wasRefused && !this.responseBegan)
  }
}
