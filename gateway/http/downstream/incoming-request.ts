import type { Socket } from 'node:net'
import type { Field } from '../../http1/field.ts'
import { type RequestHeaders, readRequestHeaders } from '../request-headers.ts'
import type { RequestBody } from './request-body.ts'
import type { RequestParser } from './request-parser.ts'

/** One request as it came, from the moment when its head is whole. */
export class IncomingRequest {
  readonly socket: Socket
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

  constructor(socket: Socket, { lines, fields }: Pick<RequestParser, 'lines' | 'fields'>) {
    this.socket = socket
    this.method = lines.method
    this.target = lines.target
    this.version = lines.version
    this.fields = fields
    this.headers = readRequestHeaders(fields, lines.version)
  }
}
