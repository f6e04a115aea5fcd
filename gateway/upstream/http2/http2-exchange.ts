import type { ClientHttp2Stream } from 'node:http2'
import type { Readable } from 'node:stream'
import { grpcStatusIn, httpStatusOfGrpc, UNKNOWN } from '../../edge/rules/grpc.ts'
import type { Field } from '../../edge/syntax/field.ts'
import { isBodiless } from '../../edge/syntax/status-codes.ts'
import { ALL_IN_USE, PooledExchange } from '../pooled-exchange.ts'
import { StreamedBody } from '../request-body.ts'
import type { UpstreamFault, UpstreamFaultKind } from '../upstream-client.ts'
import { requestHead } from './stream-heads.ts'
import type { SessionPool, SessionUser, UpstreamSession } from './upstream-session.ts'
import type { StreamUser, UpstreamStream } from './upstream-stream.ts'

/** An exchange that is turned away may have opened a connection each time. */
const MAX_TIMES_TURNED_AWAY = 3

export class Http2Exchange
  extends PooledExchange<UpstreamSession, SessionPool>
  implements SessionUser, StreamUser
{
  #head: readonly string[] = []
  #bodyBegan = false
  #stream: UpstreamStream | undefined = undefined
  #timesTurnedAway = 0
  /** The gRPC status when the trailers have none; undefined until a call gets a head with status 200. */
  #callStatus: number | undefined = undefined
  /** True when the response ends with its head, so that no later fault matters (RFC 9110 section 6.4.1). */
  #isWholeWithHead = false

  protected resumeReading(): void {
    this.#stream?.resume()
  }

  protected writeHead(): void {
    this.#head = requestHead(this.request, this.upstream)
  }

  protected use(session: UpstreamSession): void {
    session.assignTo(this)
  }

  protected send(whole: Buffer | undefined): boolean {
    const { body } = this.request
    const isStreamed = body !== null && whole === undefined
    const scheme = this.chosenOrigin.pool.address.secure ? 'https' : 'http'
    let opened: UpstreamStream | undefined
    try {
      opened = this.connection?.open([':scheme', scheme, ...this.#head], this, {
        endStream: body === null,
        // Without trailers to follow, Node sends END_STREAM for a cancelled body before it resets the stream.
        waitForTrailers: isStreamed,
      })
    } catch (error) {
      this.dropConnection()
      this.failLater({ kind: 'unreachable', cause: `the call cannot be sent: ${(error as Error).message}` })
      return false
    }
    if (opened === undefined) {
      this.connection?.retire()
      this.turnedAway()
      return false
    }
    this.#stream = opened
    this.sent = true
    opened.stream.once('wantTrailers', () => this.#sendTrailers())
    if (!isStreamed) {
      if (whole !== undefined) opened.stream.end(whole)
      this.bodySent()
    }
    return true
  }

  protected streamOf(source: Readable, bytes: number | undefined): SentBody {
    const { stream } = this.#stream as UpstreamStream
    if (this.request.isDuplex === true) this.idleDeadlineMs = this.state.clock() + this.request.idleMs
    return new SentBody(source, bytes, { stream, sender: this })
  }

  #sendTrailers(): void {
    const { stream } = this.#stream ?? {}
    if (stream === undefined || stream.closed || this.isSending) return
    const trailers: Record<string, string[]> = Object.create(null)
    for (const { lower, value } of this.request.trailers?.() ?? []) {
      trailers[lower] ??= []
      trailers[lower].push(value)
    }
    stream.sendTrailers(trailers)
  }

  turnedAway(): void {
    this.#timesTurnedAway += 1
    this.request.attempts?.failed('unreachable')
    this.detach()
    this.nowMs = this.state.clock()
    // Otherwise an upstream that takes no streams would make us open connections without end.
    if (this.#timesTurnedAway < MAX_TIMES_TURNED_AWAY) this.attempt(ALL_IN_USE)
    else this.failLater(ALL_IN_USE)
  }

  responded(status: number, fields: readonly Field[]): void {
    if (this.request.isDuplex === true && status === 200) this.#callStatus = grpcStatusIn(fields) ?? UNKNOWN
    this.head(status, fields, this.state.clock())
    // `headReceived` is false if the response was dropped, and the request is sent again.
    this.#isWholeWithHead = this.headReceived && isBodiless(this.request.method, status)
  }

  piece(bytes: Buffer): boolean {
    return this.data(bytes, this.state.clock())
  }

  whole(trailers: readonly Field[] | undefined): void {
    if (this.#callStatus !== undefined)
      this.attemptEnded(httpStatusOfGrpc(grpcStatusIn(trailers ?? []) ?? this.#callStatus))
    this.ended(trailers)
  }

  lost(kind: UpstreamFaultKind, cause: string, wasRefused: boolean): void {
    const responseBegan = this.#stream?.responseBegan ?? false
    if (this.#isWholeWithHead) this.ended()
    else this.connectionLost({ kind, cause }, { sent: !wasRefused || this.#hasBodyBegun, responseBegan })
  }

  get #hasBodyBegun(): boolean {
    return this.#bodyBegan || this.body?.hasBegun === true
  }

  override bodyPassed(): void {
    const { isDuplex, idleMs } = this.request
    if (this.headReceived || isDuplex !== true) super.bodyPassed()
    else this.idleDeadlineMs = this.state.clock() + idleMs
  }

  override bodyTaken(): void {
    if (this.request.isDuplex !== true) super.bodyTaken()
    else this.bodyPassed()
  }

  bodySent(): void {
    this.#bodyBegan ||= this.request.body !== null
    this.body = undefined
    this.awaitHead()
  }

  /** A gRPC call may get its head only with its first message, so `headersMs` does not apply. */
  protected override awaitHead(): void {
    if (this.request.isDuplex !== true) super.awaitHead()
    else if (!this.headReceived) this.idleDeadlineMs = this.state.clock() + this.request.idleMs
  }

  protected override stepFault(): UpstreamFault {
    const { isDuplex, idleMs } = this.request
    if (isDuplex !== true) return super.stepFault()
    if (this.awaitsSender) return { kind: 'unsent', cause: `neither side sent anything within ${idleMs} ms` }
    return super.stepFault(idleMs)
  }

  protected override abortWith(fault: UpstreamFault): void {
    // This comes first, because the receiver of the fault may end the session.
    if (fault.kind === 'timeout') this.connection?.probe()
    super.abortWith(fault)
  }

  protected dropConnection(): void {
    this.detach()
  }

  protected override detach(): UpstreamSession | undefined {
    this.#bodyBegan ||= this.body?.hasBegun === true
    this.#stream?.leave()
    this.#stream = undefined
    const session = super.detach()
    session?.leave(this)
    return session
  }
}

class SentBody extends StreamedBody<ClientHttp2Stream> {
  protected write(piece: Buffer): boolean {
    // A write would break the reading of a response whose stream was reset.
    if (!this.to.closed) return this.to.write(piece)
    this.stop()
    return false
  }

  protected finish(): void {
    this.detach()
    // This comes first, because Node asks for the trailers when the stream ends.
    this.sender.bodySent()
    this.to.end()
  }
}
