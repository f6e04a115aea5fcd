import type { Socket } from 'node:net'
import { BoundedBody } from '../../http/bodies/bounded-body.ts'
import type { BodyReceiver } from '../../http/bodies/read-buffers.ts'
import { StreamedBody } from '../request-body.ts'

/** A body on a connection of HTTP/1.1; chunked when its length is not known. */
export class RequestBody extends StreamedBody<Socket> implements BodyReceiver {
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
    // A drain is announced even of what the system has taken at once.
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
