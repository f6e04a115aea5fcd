import { ChunkFrames } from '../../http/syntax/chunk-frames.ts'
import type { Field } from '../../http/syntax/field.ts'
import { HeadParser } from '../../http/syntax/head-parser.ts'
import { MAX_RESPONSE_HEAD_BYTES } from '../response-head.ts'
import { AnswerLines } from './response-lines.ts'

/** Interim answers before one final answer. */
const MAX_INTERIM = 32
/** So that one response can end every session of a user: some 1,300 by a list, 900 by a field each. */
const MAX_FIELDS = 1024

/** Who reads an answer. What it is told may make it call `stop`. */
export interface AnswerReader {
  /** 1xx, but never 101. */
  interim(status: number, fields: readonly Field[]): void
  head(status: number, fields: readonly Field[]): void
  /** Bytes of the body, in a buffer that is used again right after. Returns `false` to be held back. */
  data(bytes: Buffer, from: number, to: number): boolean
}

/** What an answer is asked for with. */
export interface Asked {
  readonly method: string
  readonly upgrade: string | undefined
}

/**
 * Where the parser is. `whole`: the answer is, and no byte beyond it was read. `switched`: 101 to a call that asked for
 * an upgrade; what follows is no HTTP. `stopped`: no byte is expected, or none is wanted any more.
 */
export type Phase =
  | 'head'
  | 'length'
  | 'chunks'
  | 'trailers'
  | 'until close'
  | 'whole'
  | 'switched'
  | 'faulty'
  | 'stopped'

/**
 * Reads the answers that come on one connection, one after the other, in whatever pieces they come (RFC 9112).
 */
export class AnswerParser {
  phase: Phase = 'stopped'
  /** No more data is told, though the frame around it is still read. Written by the reader's answer, and by `release`. */
  held = false
  /** Why the answer is refused, when it is `faulty`. */
  fault = ''
  /** At least one byte of the present answer, or of an interim one before it, has come. */
  began = false
  readonly #reader: AnswerReader
  readonly #lines = new AnswerLines()
  readonly #head = new HeadParser(this.#lines, { maxBytes: MAX_RESPONSE_HEAD_BYTES, maxFields: MAX_FIELDS })
  readonly #chunks = new ChunkFrames()
  #asked: Asked = { method: '', upgrade: undefined }
  #left = 0
  #interim = 0

  constructor(reader: AnswerReader) {
    this.#reader = reader
  }

  /** A request goes out: from now on its answer may come. */
  expect(asked: Asked): void {
    this.#asked = asked
    this.#beginHead()
    this.phase = 'head'
    this.held = false
    this.began = false
    this.#interim = 0
  }

  #beginHead(): void {
    this.#lines.begin()
    this.#head.begin()
  }

  /** Nothing more is read. */
  stop(): void {
    this.phase = 'stopped'
  }

  /** The reader takes data again. */
  release(): void {
    this.held = false
  }

  /** Whether the connection may be used again after this answer, as far as the answer says (RFC 9112 section 9.3). */
  get keepsConnection(): boolean {
    return this.#lines.minor === 1 && !this.#lines.closes
  }

  /** What the answer said of how long the connection may idle, seconds. */
  get keepAliveSeconds(): number | undefined {
    return this.#lines.keepAliveSeconds
  }

  /** Of the head read last. */
  get fields(): readonly Field[] {
    return this.#head.fields
  }

  /** @returns where it stopped: `to`, or before it when held back, or when the phase is one of the last four. */
  read(bytes: Buffer, from: number, to: number): number {
    this.began = true
    let at = from
    while (at < to) {
      switch (this.phase) {
        case 'head':
        case 'trailers':
          at += this.#readFields(bytes, at, to)
          break
        case 'length':
        case 'until close':
          if (this.held) return at
          at = this.#readPlain(bytes, at, to)
          break
        case 'chunks':
          if (this.held && this.#chunks.hasData) return at
          at = this.#readChunks(bytes, at, to)
          break
        default:
          return at
      }
    }
    return at
  }

  #readFields(bytes: Buffer, from: number, to: number): number {
    const head = this.#head
    const consumed = head.readBytes(bytes, from, to)
    if (head.fault !== undefined) this.#refuse(head.fault)
    else if (head.whole && this.phase === 'trailers') this.phase = 'whole'
    else if (head.whole) this.#headWhole()
    return consumed
  }

  #headWhole(): void {
    const { status } = this.#lines
    const { fields } = this.#head
    if (status >= 200) this.#finalHead()
    // No interim answer and no 204 has a body (RFC 9110 section 15.2, RFC 9112 section 6.1); who frames one may send it.
    else if (this.#framesBody()) this.#refuse(`a ${status} answer that frames a body`)
    else if (status === 101) {
      if (this.#asked.upgrade === undefined) this.#refuse('status 101 where none was asked for')
      else this.phase = 'switched'
    } else if (++this.#interim > MAX_INTERIM) this.#refuse(`more than ${MAX_INTERIM} interim answers`)
    else {
      this.#beginHead()
      this.#reader.interim(status, fields)
    }
  }

  #finalHead(): void {
    const { status, chunked, contentLength } = this.#lines
    if (status === 204 && this.#framesBody()) {
      this.#refuse('a 204 answer that frames a body')
      return
    }
    const isBodiless = this.#asked.method === 'HEAD' || status === 204 || status === 304
    // Before the reader is told, who may stop us.
    if (isBodiless || contentLength === 0) this.phase = 'whole'
    else if (chunked) {
      this.#chunks.begin()
      this.phase = 'chunks'
    } else if (contentLength > 0) {
      this.#left = contentLength
      this.phase = 'length'
    } else this.phase = 'until close'
    this.#reader.head(status, this.#head.fields)
  }

  #framesBody(): boolean {
    return this.#lines.chunked || this.#lines.contentLength > 0
  }

  #readPlain(bytes: Buffer, from: number, to: number): number {
    let end = to
    if (this.phase === 'length') {
      end = Math.min(to, from + this.#left)
      this.#left -= end - from
      if (this.#left === 0) this.phase = 'whole'
    }
    this.#tell(bytes, from, end)
    return end
  }

  #readChunks(bytes: Buffer, from: number, to: number): number {
    const chunks = this.#chunks
    if (chunks.hasData) {
      const end = Math.min(to, from + chunks.left)
      chunks.take(end - from)
      this.#tell(bytes, from, end)
      return end
    }
    const at = chunks.read(bytes, from, to)
    if (chunks.fault !== undefined) this.#refuse(chunks.fault)
    else if (chunks.last) {
      this.#head.beginTrailers()
      this.phase = 'trailers'
    }
    return at
  }

  #tell(bytes: Buffer, from: number, to: number): void {
    if (!this.#reader.data(bytes, from, to)) this.held = true
  }

  #refuse(fault: string): void {
    this.fault = fault
    this.phase = 'faulty'
  }
}
