import type { Socket } from 'node:net'
import { type RequestHeaders, readRequestHeaders } from '../rules/request-headers.ts'
import type { Field } from '../syntax/field.ts'
import type { Holder } from './connection-holders.ts'
import type { RequestBody } from './incoming-body.ts'
import type { RequestParser } from './request-parser.ts'

/** Where a request came from. */
export interface Origin {
  readonly socket: Socket
  /** The address of the other end. */
  readonly peer: string
  /** Whose connection it is. */
  readonly holder: Holder
}

/** One request as it came, from the moment when its head is whole. */
export class IncomingRequest {
  readonly socket: Socket
  /** The address of the other end, as it was when the connection was accepted. */
  readonly peer: string
  /** `-` when there was no request line that could be read. */
  readonly method: string
  /** As received. */
  readonly target: string
  readonly version: '1.0' | '1.1'
  readonly fields: readonly Field[]
  /** What the gateway itself needs of them. */
  readonly headers: RequestHeaders
  /** Null when it announces none. */
  body: RequestBody | null = null
  /** Every byte of it has come. */
  complete = false
  /** What its client's address takes up; belongs to whoever handles its requests. */
  readonly holder: Holder
  #whenComplete: (() => void) | undefined = undefined

  constructor({ socket, peer, holder }: Origin, { lines, fields }: Pick<RequestParser, 'lines' | 'fields'>) {
    this.socket = socket
    this.peer = peer
    this.holder = holder
    this.method = lines.method
    this.target = lines.target
    this.version = lines.version
    this.fields = fields
    this.headers = readRequestHeaders(fields, lines.version)
  }

  /** Where its body ends is in doubt, or what follows is not HTTP. */
  get isOpaque(): boolean {
    return this.headers.fault !== undefined || this.method === 'CONNECT'
  }

  /** For the connection: every byte has come. */
  markComplete(): void {
    this.complete = true
    this.#whenComplete?.()
    this.body?.complete()
  }

  /** Once. Never resolves when the rest does not come: whoever ends the request then knows it. */
  whenComplete(): Promise<undefined> {
    return new Promise((resolve) => {
      this.#whenComplete = () => resolve(undefined)
    })
  }
}
