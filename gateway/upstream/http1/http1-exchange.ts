import type { Socket } from 'node:net'
import type { Duplex, Readable } from 'node:stream'
import { BoundedBody } from '../../edge/bodies/bounded-body.ts'
import type { BodyReceiver } from '../../edge/bodies/read-buffers.ts'
import { isToken } from '../../edge/syntax/characters.ts'
import { combinedValue, type Field } from '../../edge/syntax/field.ts'
import { theOnly, type WrittenFields, writtenFields } from '../common-fields.ts'
import { checkRequestLine, lengthIn } from '../message-head.ts'
import { PooledExchange } from '../pooled-exchange.ts'
import { METHODS_WITH_BODY, StreamedBody } from '../request-body.ts'
import { hostOf } from '../upstream-address.ts'
import type { UpstreamFaultKind, UpstreamRequest } from '../upstream-client.ts'
import type { ConnectionPool, ConnectionUser, Http1Connection } from './http1-connection.ts'

/** On an open connection, the request is written before `UpstreamClient.send` returns. */
export class Http1Exchange extends PooledExchange<Http1Connection, ConnectionPool> implements ConnectionUser {
  #requestHead = ''

  protected resumeReading(): void {
    this.connection?.resume()
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

/** Sends a body, in chunks when its length is not known. */
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

/** True for a 101 to this protocol alone (RFC 9110 section 7.8). */
function switchesTo(protocol: string, fields: readonly Field[]): boolean {
  return combinedValue(fields, 'upgrade')?.toLowerCase() === protocol.toLowerCase()
}

const NO_FIELDS: WrittenFields = { lines: '', host: undefined, contentLength: undefined }

/**
 * The head, latin1, with its empty line (RFC 9112 sections 3, 6 and 9).
 * @throws TypeError when the request cannot be sent
 */
function requestHead(request: UpstreamRequest, upstream: string): string {
  const { method, target, fields, common } = request
  checkRequestLine(method, target)
  const own = writtenFields(fields)
  const shared = common?.written ?? NO_FIELDS
  const host = request.namesTarget === true ? hostOf(upstream) : theOnly('Host', shared.host, own.host)
  const length = theOnly('Content-Length', shared.contentLength, own.contentLength)
  const framing = length === undefined ? framingWithoutLength(request) : lengthField(request, length)
  const start = `${method} ${target} HTTP/1.1\r\nhost: ${host ?? ''}\r\n`
  return `${start}${connectionFields(request)}${shared.lines}${own.lines}${framing}\r\n`
}

function connectionFields({ method, body, upgrade }: UpstreamRequest): string {
  // A body without meaning for its method (RFC 9110 sections 9.3.1, 9.3.2, 9.3.5) may be left unread. A careless
  // service would parse it as the next request, and respond to another caller.
  const mayLeaveBody = body !== null && !METHODS_WITH_BODY.has(method)
  if (upgrade === undefined) return mayLeaveBody ? 'connection: close\r\n' : 'connection: keep-alive\r\n'
  const [protocol = '', version] = upgrade.split('/', 2)
  if (!isToken(protocol) || (version !== undefined && !isToken(version)))
    throw new TypeError('an upgrade to a malformed protocol name')
  return `connection: upgrade\r\nupgrade: ${upgrade}\r\n`
}

function lengthField({ body }: UpstreamRequest, value: string): string {
  const bytes = lengthIn(value)
  if (bytes === undefined) throw new TypeError('a Content-Length that is not a number of bytes')
  if (bytes > 0 && body === null) throw new TypeError('a Content-Length without a body')
  // Some recipients take leading zeros for octal.
  return `content-length: ${bytes}\r\n`
}

function framingWithoutLength({ method, body }: UpstreamRequest): string {
  if (body !== null) return 'transfer-encoding: chunked\r\n'
  // RFC 9110 section 8.6.
  return METHODS_WITH_BODY.has(method) ? 'content-length: 0\r\n' : ''
}
