import type { ClientHttp2Stream } from 'node:http2'
import { StreamedBody } from '../request-body.ts'

/** A body on a stream of HTTP/2. */
export class SentBody extends StreamedBody<ClientHttp2Stream> {
  /** Part of it cannot be sent a second time. */
  hasBegun = false

  protected write(piece: Buffer): boolean {
    this.hasBegun = true
    // Reset, with a response that is still being read: a write would be a fault of that.
    if (!this.to.closed) return this.to.write(piece)
    this.stop()
    return false
  }

  protected finish(): void {
    this.hasBegun = true
    this.detach()
    // First, because its trailers are asked for when it has ended.
    this.sender.bodySent()
    this.to.end()
  }
}
