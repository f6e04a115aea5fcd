import type { RefusalCode } from '../../refusals.ts'
import { ChunkFrames } from '../syntax/chunk-frames.ts'
import type { Field } from '../syntax/field.ts'
import { HeadParser } from '../syntax/head-parser.ts'
import type { RequestFault } from './request-fault.ts'
import { RequestLines } from './request-lines.ts'

/** Far beyond what `admit` takes, so that it is it that refuses, with all that the head says. */
const MAX_HEAD_BYTES = 16 * 1024
const MAX_FIELDS = 4096
const CR = 0x0d
const LF = 0x0a

/** How a request frames its body (RFC 9112 section 6): a number of bytes, 0 for none, or in chunks. */
export type Framing = number | 'chunks'

type Phase = 'head' | 'framing' | 'length' | 'chunks' | 'trailers' | 'whole' | 'faulty'

/** Reads the requests that come on one connection, one after the other, in whatever pieces they come (RFC 9112). */
export class RequestParser {
  /** What the head says, as far as it has been read. */
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

  /** Of the head, as far as it has been read. */
  get fields(): readonly Field[] {
    return this.#head.fields
  }

  /** The connection is idle. */
  rest(): void {
    this.#head.rest()
  }

  /** The head has been read; `frame` is next. */
  get headWhole(): boolean {
    return this.#phase === 'framing'
  }

  /** Not a byte of the request is missing. */
  get whole(): boolean {
    return this.#phase === 'whole'
  }

  /** @returns where it stopped: behind the head, when that is whole; else at the end, or at a fault. */
  readHead(bytes: Buffer, from: number): number {
    let at = from
    while (at < bytes.length && this.#phase === 'head') at += this.#readFields(bytes, at)
    return at
  }

  /** What follows the head. */
  frame(framing: Framing): void {
    if (framing === 'chunks') {
      this.#chunks.begin()
      this.#phase = 'chunks'
    } else {
      this.#left = framing
      this.#phase = framing === 0 ? 'whole' : 'length'
    }
  }

  /** @returns where it stopped: behind the request, when that is whole; else at the end, or at a fault. */
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

/** Empty lines before a request are skipped (RFC 9112 section 2.2). @returns where the first other byte stands. */
export function skipEmptyLines(bytes: Buffer): number {
  let at = 0
  while (bytes[at] === CR || bytes[at] === LF) at++
  return at
}
