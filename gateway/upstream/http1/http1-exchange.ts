import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { BoundedBody } from '../../edge/bodies/bounded-body.ts'
import type { BodyReceiver } from '../../edge/bodies/read-buffers.ts'
import type { Field } from '../../edge/syntax/field.ts'
import { switchesTo } from '../message-head.ts'
import { PooledExchange } from '../pooled-exchange.ts'
import { type BodySender, contentLength, StreamedBody, takeWhole } from '../request-body.ts'
import type { UpstreamFaultKind } from '../upstream-client.ts'
import type { ConnectionPool, ConnectionUser, Http1Connection } from './http1-connection.ts'
import { requestHead } from './outgoing-head.ts'

/** On an open connection the request is written before `send` returns. */
export class Http1Exchange
  extends PooledExchange<Http1Connection, ConnectionPool>
  implements ConnectionUser, BodySender
{
  #requestHead = ''
  /** All of it had arrived; else `#body` streams it. */
  #wholeBody: Buffer | undefined = undefined
  #body: RequestBody | undefined = undefined

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

  protected get isSending(): boolean {
    return this.#body !== undefined
  }

  protected get awaitsSender(): boolean {
    return this.#body?.heldBack === false
  }

  protected writeHead(): void {
    this.#requestHead = requestHead(this.request, this.upstream)
  }

  protected use(connection: Http1Connection): void {
    if (this.request.namesTarget === true) this.writeHead()
    connection.assignTo(this)
  }

  connected(): void {
    const { connection } = this
    if (connection === undefined) return
    const { body: source } = this.request
    if (source === null) this.#write(connection, undefined)
    else if (this.#wholeBody === undefined && source.destroyed && !source.readableEnded)
      this.bodyFailed('the body was broken off')
    else {
      const bytes = contentLength(this.request)
      this.#wholeBody ??= takeWhole(source, bytes)
      this.#write(connection, this.#wholeBody)
      if (this.#wholeBody !== undefined || !this.sent) return
      this.#body = new RequestBody(source, bytes, { stream: connection.socket, sender: this })
      this.#body.start()
    }
  }

  #write(connection: Http1Connection, body: Buffer | undefined): void {
    connection.write(this.#requestHead, body)
    this.sent = !connection.tookNothing
    if (this.sent && (body !== undefined || this.request.body === null)) this.bodySent()
  }

  bodySent(): void {
    this.#body = undefined
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

  protected override detach(): Http1Connection | undefined {
    this.#body?.stop()
    this.#body = undefined
    return super.detach()
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
