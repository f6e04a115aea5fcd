import type { Socket } from 'node:net'
import type { Duplex, Readable } from 'node:stream'
import { BoundedBody } from '../../edge/bodies/bounded-body.ts'
import type { BodyReceiver } from '../../edge/bodies/read-buffers.ts'
import type { Field } from '../../edge/syntax/field.ts'
import { switchesTo } from '../message-head.ts'
import { PooledExchange } from '../pooled-exchange.ts'
import { StreamedBody } from '../request-body.ts'
import type { UpstreamFaultKind } from '../upstream-client.ts'
import type { ConnectionPool, ConnectionUser, Http1Connection } from './http1-connection.ts'
import { requestHead } from './outgoing-head.ts'

/** On an open connection the request is written before `send` returns. */
export class Http1Exchange extends PooledExchange<Http1Connection, ConnectionPool> implements ConnectionUser {
  #requestHead = ''

  get method(): string {
    return this.request.method
  }

  get hasBody(): boolean {
    return this.request.body !== null
  }

  get upgrade(): string | undefined {
    return this.request.upgrade
  }

  override continueReading(): boolean {
    const mayRead = super.continueReading()
    if (mayRead) this.connection?.resume()
    return mayRead
  }

  protected writeHead(): void {
    this.#requestHead = requestHead(this.request, this.upstream)
  }

  protected use(connection: Http1Connection): void {
    connection.assignTo(this)
  }

  protected send(whole: Buffer | undefined): boolean {
    const { connection } = this
    if (connection === undefined) return false
    connection.write(this.#requestHead, whole)
    this.sent = !connection.tookNothing
    if (this.sent && (whole !== undefined || this.request.body === null)) this.bodySent()
    return this.sent
  }

  protected streamOf(source: Readable, bytes: number | undefined): RequestBody {
    const { socket } = this.connection as Http1Connection
    return new RequestBody(source, bytes, { stream: socket, sender: this })
  }

  bodySent(): void {
    this.body = undefined
    this.connection?.sent()
    this.awaitHead()
  }

  failed(kind: UpstreamFaultKind, cause: string): void {
    const responseBegan = this.connection?.responseBegan ?? false
    this.connectionLost({ kind, cause }, { sent: this.sent, responseBegan })
  }

  switched(fields: readonly Field[], socket: Duplex): void {
    this.upgraded()
    if (switchesTo(this.request.upgrade ?? '', fields)) this.response.upgrade(fields, socket)
    else {
      socket.destroy()
      this.response.fault({ kind: 'malformed', cause: 'a switch to a protocol that was not asked for' })
    }
  }

  protected dropConnection(): void {
    this.detach()?.destroy()
  }
}

/** Chunked when its length is not known. */
class RequestBody extends StreamedBody<Socket> implements BodyReceiver {
  override start(): void {
    const { source } = this
    if (source instanceof BoundedBody && !source.readableEnded) source.passTo(this)
    super.start()
  }

  data(piece: Buffer): boolean {
    this.onData(piece)
    return !this.heldBack && !this.isOver
  }

  get isHolding(): boolean {
    return this.to.writableLength > 0
  }

  protected write(piece: Buffer): boolean {
    const socket = this.to
    if (this.left !== undefined) socket.write(piece)
    else {
      socket.cork()
      socket.write(`${piece.length.toString(16)}\r\n`, 'latin1')
      socket.write(piece)
      socket.write('\r\n', 'latin1')
      socket.uncork()
    }
    // `writableNeedDrain` may be true although the system took everything.
    return !socket.writableNeedDrain || socket.writableLength === 0
  }

  protected finish(): void {
    if (this.left === undefined) this.to.write('0\r\n\r\n', 'latin1')
    this.detach()
    this.sender.bodySent()
  }

  protected override detach(): void {
    if (this.source instanceof BoundedBody) this.source.passTo(undefined)
    super.detach()
  }
}
