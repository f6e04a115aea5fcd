import type { Socket } from 'node:net'
import type { HttpVersion, RequestHeaders } from '../rules/request-headers.ts'
import type { Field } from '../syntax/field.ts'
import type { ClientNetwork } from './client-networks.ts'
import type { IncomingBody } from './incoming-body.ts'

export interface Origin {
  readonly socket: Socket
  readonly peer: string
  readonly network: ClientNetwork
}

/** The first line of HTTP/1, or the pseudo-fields of HTTP/2. */
interface StartLine {
  readonly method: string
  readonly target: string
  readonly version: HttpVersion
}

const NO_FIELDS: readonly Field[] = []

export class IncomingRequest {
  readonly socket: Socket
  readonly peer: string
  /** `-` when the request line cannot be read. */
  readonly method: string
  /** As received. */
  readonly target: string
  readonly version: HttpVersion
  readonly fields: readonly Field[]
  readonly headers: RequestHeaders
  body: IncomingBody | null = null
  complete = false
  /** HTTP/2 only; known when the request is complete. */
  trailers: readonly Field[] = NO_FIELDS
  readonly network: ClientNetwork
  #whenComplete: (() => void) | undefined = undefined
  #whenBegun: (() => void) | undefined = undefined

  constructor(
    { socket, peer, network }: Origin,
    { method, target, version }: StartLine,
    fields: readonly Field[],
    headers: RequestHeaders,
  ) {
    this.socket = socket
    this.peer = peer
    this.network = network
    this.method = method
    this.target = target
    this.version = version
    this.fields = fields
    this.headers = headers
  }

  /** True after a fault of the fields or for CONNECT: what follows may be no HTTP. The response ends the connection. */
  get isOpaque(): boolean {
    return this.headers.fault !== undefined || this.method === 'CONNECT'
  }

  markComplete(): void {
    this.complete = true
    this.markBegun()
    this.#whenComplete?.()
    this.body?.complete()
  }

  /** Called when a byte of the body or the end of the request has come. */
  markBegun(): void {
    this.#whenBegun?.()
    this.#whenBegun = undefined
  }

  /** Calls `run` at `markBegun`. Only one function may wait at a time. */
  whenBegun(run: () => void): void {
    this.#whenBegun = run
  }

  /** Resolves at `markComplete`; never if the rest of the request does not come. Call it once. */
  whenComplete(): Promise<undefined> {
    return new Promise((resolve) => {
      this.#whenComplete = () => resolve(undefined)
    })
  }
}
