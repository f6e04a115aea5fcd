import type { Socket } from 'node:net'
import type { Timed } from '../../http/syntax/deadlines.ts'
import type { Field } from '../../http/syntax/field.ts'
import { type ConnectError, openConnection } from '../undici/undici-connection.ts'
import { hasReadBody } from '../unread-body.ts'
import type { UpstreamFaultKind } from '../upstream-client.ts'
import type { Keeper } from './connection-owner.ts'
import type { Carried } from './connection-user.ts'
import { copyOf } from './copy-of.ts'
import { AnswerParser, type AnswerReader } from './response-parser.ts'
import { UpgradedStream } from './upgraded-stream.ts'

/** Less than the 5 s after which a Node server closes an idle connection. */
const KEEP_ALIVE_MS = 4000
/** So much earlier than a server announces, that a request never crosses the server's closing. */
const KEEP_ALIVE_MARGIN_MS = 2000
const KEEP_ALIVE_MAX_MS = 60_000

/**
 * Every connection reads into this one: what is read is told, and copied where it is kept, before the next read. An idle
 * connection has no buffer, and a read makes none.
 */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024)

/** One connection to an upstream, and the one exchange that it carries at a time (RFC 9112 section 9). */
export class PlainConnection implements Timed, AnswerReader {
  slot = -1
  /** Until when it may wait for its next exchange, on the clock. */
  idleUntilMs = Number.POSITIVE_INFINITY
  readonly #keeper: Keeper
  readonly #parser = new AnswerParser(this)
  readonly #socket: Socket
  #carried: Carried | undefined = undefined
  #stands = false
  /** Nothing can be sent any more. */
  #gone = false
  /** Not everything of the request has been written. */
  #sending = false
  /** What was sent last may be lying unread at the other end: nothing can follow it. */
  #leftUnread = false
  #paused = false
  /** What was read while the receiver held the body back. */
  #unread: Buffer | undefined = undefined
  #nowMs = 0
  #upgraded: UpgradedStream | undefined = undefined
  #error: NodeJS.ErrnoException | undefined = undefined

  /** Begins to connect. */
  constructor(keeper: Keeper) {
    this.#keeper = keeper
    this.#socket = openConnection(keeper.address, keeper.connectMs, {
      onread: { buffer: readBuffer, callback: (bytes) => this.#received(bytes) },
      connected: () => {
        this.#stands = true
        keeper.connected()
        this.#carried?.connected()
      },
      failed: (error) => this.#unconnected(error),
    })
    this.#socket.on('error', (error) => {
      this.#error = error
    })
    this.#socket.on('end', () => this.#ended())
    this.#socket.on('close', () => this.#closed())
  }

  get socket(): Socket {
    return this.#socket
  }

  /** At least one byte of an answer to the present request has come. */
  get answerBegan(): boolean {
    return this.#parser.began
  }

  /** The first write failed at once, as it does when the upstream had closed: not a byte was taken. */
  get tookNothing(): boolean {
    return this.#socket.errored !== null
  }

  /** Takes an exchange over: the connection is free. `connected` is called, now or when it stands. */
  carry(carried: Carried): void {
    this.#carried = carried
    this.idleUntilMs = Number.POSITIVE_INFINITY
    if (this.#stands) carried.connected()
  }

  /** The request begins with these bytes, latin1, and with the body behind them when it is there already. */
  write(head: string, body: Buffer | undefined): void {
    const carried = this.#carried
    if (carried === undefined) return
    this.#parser.expect(carried)
    this.#sending = true
    if (body === undefined) this.#socket.write(head, 'latin1')
    else if (body.length <= 4096) this.#socket.write(head + body.toString('latin1'), 'latin1')
    else {
      this.#socket.cork()
      this.#socket.write(head, 'latin1')
      this.#socket.write(body)
      this.#socket.uncork()
    }
  }

  /** The request has been written whole. */
  sent(): void {
    this.#sending = false
  }

  /** The receiver takes the body again. */
  resume(): void {
    const unread = this.#unread
    this.#unread = undefined
    this.#parser.release()
    if (unread !== undefined) this.#read(unread, unread.length)
    if (!this.#parser.held) this.#resumeSocket()
  }

  /** Closes it; who is carried is told nothing. */
  destroy(): void {
    this.#carried = undefined
    this.#leave()
    this.#socket.destroy()
  }

  checkTime(nowMs: number): void {
    if (nowMs >= this.idleUntilMs) this.destroy()
  }

  interim(status: number, fields: readonly Field[]): void {
    this.#carried?.interim(status, fields)
  }

  head(status: number, fields: readonly Field[]): void {
    const carried = this.#carried
    if (carried?.hasBody === true) this.#leftUnread = this.#isLeftUnread(carried.method, status)
    carried?.head(status, fields, this.#nowMs)
  }

  /** A response that comes before the whole request has gone is one to its head. */
  #isLeftUnread(method: string, status: number): boolean {
    return this.#sending || this.#socket.writableLength > 0 || !hasReadBody(method, status)
  }

  data(bytes: Buffer, from: number, to: number): boolean {
    return this.#carried?.data(copyOf(bytes, from, to), this.#nowMs) ?? false
  }

  /** @returns `false` to have no more bytes read. */
  #received(length: number): boolean {
    const upgraded = this.#upgraded
    if (upgraded !== undefined) return upgraded.receive(readBuffer, 0, length)
    // Nobody asked for anything: whatever it is, it must not become the answer to the next request.
    if (this.#carried === undefined) this.destroy()
    else this.#read(readBuffer, length)
    return !this.#paused
  }

  #read(bytes: Buffer, length: number): void {
    this.#nowMs = this.#keeper.clock()
    let at = length
    try {
      at = this.#parser.read(bytes, 0, length)
    } catch (mistake) {
      this.#fail('broken', `a mistake of the receiver: ${mistake}`)
      return
    }
    const { phase } = this.#parser
    if (phase === 'whole') this.#whole(at === length)
    else if (phase === 'faulty') this.#fail('malformed', this.#parser.fault)
    else if (phase === 'switched') this.#switched(bytes, at, length)
    else if (this.#parser.held) this.#holdBack(bytes, at, length)
  }

  #holdBack(bytes: Buffer, from: number, to: number): void {
    this.#paused = true
    // Bytes that were held back before need no copy: nobody reads into them.
    if (from < to) this.#unread = bytes === readBuffer ? copyOf(bytes, from, to) : bytes.subarray(from, to)
  }

  /** @param exact no byte came after the answer. */
  #whole(exact: boolean): void {
    const carried = this.#carried
    this.#parser.stop()
    if (!exact || this.#sending || this.#leftUnread || !this.#parser.keepsConnection) this.destroy()
    else {
      this.#carried = undefined
      this.idleUntilMs = this.#nowMs + this.#keepAliveMs()
      this.#resumeSocket()
      this.#keeper.free(this)
    }
    carried?.ended()
  }

  #keepAliveMs(): number {
    const seconds = this.#parser.keepAliveSeconds
    if (seconds === undefined) return KEEP_ALIVE_MS
    return Math.min(seconds * 1000 - KEEP_ALIVE_MARGIN_MS, KEEP_ALIVE_MAX_MS)
  }

  #switched(bytes: Buffer, from: number, to: number): void {
    const carried = this.#carried
    if (this.#sending) {
      this.#fail('malformed', 'a switch of protocol before the request was whole')
      return
    }
    this.#carried = undefined
    this.#leave()
    const upgraded = new UpgradedStream(this.#socket)
    this.#upgraded = upgraded
    if (from < to) upgraded.receive(bytes, from, to)
    this.#keeper.closed()
    carried?.switched(this.#parser.fields, upgraded)
  }

  #resumeSocket(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#socket.resume()
  }

  /** The upstream sends nothing more. */
  #ended(): void {
    if (this.#upgraded !== undefined) return
    const carried = this.#carried
    if (carried !== undefined && this.#parser.phase === 'until close') {
      this.destroy()
      carried.ended()
    } else this.#fail('broken', 'the connection ended before the answer was whole')
  }

  #closed(): void {
    if (this.#upgraded !== undefined) return
    const error = this.#error
    const cause = error === undefined ? 'the connection was closed' : `${error.code}: ${error.message}`
    this.#fail('broken', cause)
    this.#keeper.closed()
  }

  #unconnected(error: ConnectError): void {
    const carried = this.#carried
    // Given up by ourselves says nothing about the upstream.
    if (!this.#gone) this.#keeper.unconnected()
    this.destroy()
    carried?.unconnected(error)
  }

  #fail(kind: UpstreamFaultKind, cause: string): void {
    const carried = this.#carried
    this.destroy()
    carried?.failed(kind, cause)
  }

  #leave(): void {
    this.#parser.stop()
    this.#unread = undefined
    if (this.#gone) return
    this.#gone = true
    this.#keeper.gone(this)
  }
}
