import type { RefusalCode } from '../../refusals.ts'
import { ChunkFrames } from '../syntax/chunk-frames.ts'
import type { Field } from '../syntax/field.ts'
import { HeadParser } from '../syntax/head-parser.ts'
import type { RequestFault } from './request-fault.ts'
import { RequestLines } from './request-lines.ts'

/** More than `admit` accepts, so that `admit` refuses with everything the head says. */
const MAX_HEAD_BYTES = 16 * 1024
const MAX_FIELDS = 4096
const CR = 0x0d
const LF = 0x0a

/** How a request frames its body (RFC 9112 section 6): a number of bytes, 0 for none, or in chunks. */
export type Framing = number | 'chunks'

type Phase = 'head' | 'framing' | 'length' | 'chunks' | 'trailers' | 'whole' | 'faulty'

/** Parses the requests of one connection, one after the other, in pieces of any size (RFC 9112). */
export class RequestParser {
  /** The head, as far as it has been read. */
  readonly lines = new RequestLines()
  /** Why the request is refused, when it is. */
  fault: RequestFault | undefined = undefined
  readonly #head = new HeadParser(this.lines, { maxBytes: MAX_HEAD_BYTES, maxFields: MAX_FIELDS })
  readonly #chunks = new ChunkFrames()
  #phase: Phase = 'whole'
  #left = 0

  begin(): void {
    this.lines.begin()
    this.#head.begin()
    this.fault = undefined
    this.#phase = 'head'
  }

  /** The fields of the head, as far as they have been read. */
  get fields(): readonly Field[] {
    return this.#head.fields
  }

  /** The connection is idle. */
  rest(): void {
    this.#head.rest()
  }

  /** The head is complete; `frame` is next. */
  get headWhole(): boolean {
    return this.#phase === 'framing'
  }

  /** The request is complete. */
  get whole(): boolean {
    return this.#phase === 'whole'
  }

  /** @returns where it stopped: behind the head when that is complete, else at the end or at a fault. */
  readHead(bytes: Buffer, from: number): number {
    let at = from
    while (at < bytes.length && this.#phase === 'head') at += this.#readFields(bytes, at)
    return at
  }

  /** Says what follows the head. */
  frame(framing: Framing): void {
    if (framing === 'chunks') {
      this.#chunks.begin()
      this.#phase = 'chunks'
    } else {
      this.#left = framing
      this.#phase = framing === 0 ? 'whole' : 'length'
    }
  }

  /** @returns where it stopped: behind the request when that is complete, else at the end or at a fault. */
  readBody(bytes: Buffer, from: number, take: (piece: Buffer) => void): number {
    let at = from
    while (at < bytes.length) {
      if (this.#phase === 'length') at = this.#readPlain(bytes, at, take)
      else if (this.#phase === 'chunks') at = this.#readChunks(bytes, at, take)
      else if (this.#phase === 'trailers') at += this.#readFields(bytes, at)
      else return at
    }
    return at
  }

  #readFields(bytes: Buffer, from: number): number {
    const head = this.#head
    const consumed = head.readBytes(bytes, from, bytes.length)
    if (head.fault !== undefined)
      this.#refuse(head.tooLarge ? 'headers_too_large' : 'malformed_request', head.fault)
    else if (head.whole) this.#phase = this.#phase === 'trailers' ? 'whole' : 'framing'
    return consumed
  }

  #readPlain(bytes: Buffer, from: number, take: (piece: Buffer) => void): number {
    const to = Math.min(bytes.length, from + this.#left)
    this.#left -= to - from
    if (this.#left === 0) this.#phase = 'whole'
    take(bytes.subarray(from, to))
    return to
  }

  #readChunks(bytes: Buffer, from: number, take: (piece: Buffer) => void): number {
    const chunks = this.#chunks
    if (chunks.hasData) {
      const to = Math.min(bytes.length, from + chunks.left)
      chunks.take(to - from)
      take(bytes.subarray(from, to))
      return to
    }
    const at = chunks.read(bytes, from, bytes.length)
    if (chunks.fault !== undefined)
      this.#refuse(chunks.tooLarge ? 'body_too_large' : 'malformed_request', chunks.fault)
    else if (chunks.last) {
      this.#head.beginTrailers()
      this.#phase = 'trailers'
    }
    return at
  }

  #refuse(code: RefusalCode, cause: string): void {
    this.fault = { code, cause }
    this.#phase = 'faulty'
  }
}

/** Skips empty lines before a request (RFC 9112 section 2.2). @returns the position of the first other byte. */
export function skipEmptyLines(bytes: Buffer): number {
  let at = 0
  while (bytes[at] === CR || bytes[at] === LF) at++
  return at
}
