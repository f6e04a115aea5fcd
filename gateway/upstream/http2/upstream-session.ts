import type { ClientHttp2Session, ClientSessionRequestOptions } from 'node:http2'
import type { Socket } from 'node:net'
import type { Timed } from '../../edge/syntax/deadlines.ts'
import { MAX_RESPONSE_HEAD_BYTES } from '../message-head.ts'
import { openConnection } from '../open-connection.ts'
import { Pool } from '../pool.ts'
import type { UpstreamFault } from '../upstream-client.ts'
import { type StreamUser, UpstreamStream } from './upstream-stream.ts'

/** One more stream opens another connection. */
const MAX_STREAMS = 100
const MAX_FIELDS = 1100
/** Bytes that may come beyond what clients take: of a response, and of a session. */
const STREAM_WINDOW = 256 * 1024
const SESSION_WINDOW = 4 * 1024 * 1024
/** Memory of all streams of a session, with data that waits to be read. */
const MAX_SESSION_MEMORY_MB = 64
const IDLE_MS = 60_000
/** Time for an upstream to close its side, after all exchanges. */
const CLOSE_MS = 1000
/** A session takes no further exchange from this stream id on, well before the last id (RFC 9113 section 5.1.1). */
const LAST_STREAM_ID = 2 ** 30
const NEVER = Number.POSITIVE_INFINITY

/** Each method is called at most once. */
export interface SessionUser {
  connected(): void
  /** Nothing was sent. */
  turnedAway(): void
  /** Nothing was sent. */
  connectFailed(fault: UpstreamFault): void
}

/**
 * One connection for many exchanges (RFC 9113 section 9.1). It is connected once the upstream's SETTINGS have come,
 * which prove HTTP/2 and bound the streams.
 */
export class UpstreamSession implements Timed {
  slot = -1
  readonly #pool: SessionPool
  readonly #socket: Socket
  readonly #waiting = new Set<SessionUser>()
  #session: ClientHttp2Session | undefined = undefined
  #isConnected = false
  #isRetired = false
  /** Includes exchanges that wait for the connection. */
  #users = 0
  #lastHandled = NEVER
  #settingsTimer: NodeJS.Timeout | undefined = undefined
  #pingTimer: NodeJS.Timeout | undefined = undefined
  #closeTimer: NodeJS.Timeout | undefined = undefined
  #idleUntilMs = NEVER

  constructor(pool: SessionPool) {
    this.#pool = pool
    this.#socket = openConnection(pool, {
      connected: (socket) => this.#begin(socket),
      failed: (fault) => this.#connectFailed(fault),
    })
    this.#socket.on('close', () => this.#closed())
  }

  get hasRoom(): boolean {
    return !this.#isRetired && this.#users < this.#maxStreams
  }

  get #maxStreams(): number {
    if (!this.#isConnected) return this.#pool.expectedStreams
    return Math.min(this.#session?.remoteSettings.maxConcurrentStreams ?? 0, MAX_STREAMS)
  }

  /** Calls `connected`, now or once the connection is made. */
  assignTo(user: SessionUser): void {
    this.#users += 1
    this.#idleUntilMs = NEVER
    if (this.#isConnected) user.connected()
    else this.#waiting.add(user)
  }

  leave(user: SessionUser): void {
    this.#users -= 1
    this.#waiting.delete(user)
    if (this.#users > 0) return
    this.#idleUntilMs = this.#pool.clock() + IDLE_MS
    if (this.#isRetired) this.#end()
  }

  /** @returns undefined when no stream can begin any more @throws Error when Node does not take the head */
  open(
    head: readonly string[],
    user: StreamUser,
    options: ClientSessionRequestOptions,
  ): UpstreamStream | undefined {
    const session = this.#session
    if (session === undefined || session.closed || session.destroyed) return undefined
    const stream = session.request(head, options)
    if ((stream.id ?? 0) >= LAST_STREAM_ID) this.retire()
    return new UpstreamStream(stream, user, () => this.#lastHandled)
  }

  /** Takes no further exchange, and ends with the last one. */
  retire(): void {
    if (!this.#isRetired) {
      this.#isRetired = true
      this.#pool.retired(this)
    }
    if (this.#users === 0) this.#end()
  }

  checkTime(nowMs: number): void {
    if (nowMs >= this.#idleUntilMs) this.retire()
  }

  /** Sends a PING, and closes the connection if no answer comes within `connectMs`. */
  probe(): void {
    const session = this.#session
    if (session === undefined || this.#pingTimer !== undefined || session.destroyed) return
    this.#pingTimer = setTimeout(() => this.#socket.destroy(), this.#pool.connectMs)
    session.ping(() => {
      clearTimeout(this.#pingTimer)
      this.#pingTimer = undefined
    })
  }

  #begin(socket: Socket): void {
    if ('alpnProtocol' in socket && socket.alpnProtocol !== 'h2') {
      this.#connectFailed({ kind: 'unreachable', cause: 'the upstream does not offer h2 by ALPN' })
      return
    }
    const { connect } = process.getBuiltinModule('node:http2')
    const options = {
      createConnection: () => socket,
      settings: {
        enablePush: false,
        initialWindowSize: STREAM_WINDOW,
        maxHeaderListSize: MAX_RESPONSE_HEAD_BYTES,
      },
      // Callers share the connection, so compression must not depend on what another caller sent.
      maxDeflateDynamicTableSize: 0,
      maxHeaderListPairs: MAX_FIELDS,
      maxSessionMemory: MAX_SESSION_MEMORY_MB,
      strictSingleValueFields: false,
      // Services of gRPC send white space around values.
      strictFieldWhitespaceValidation: false,
    }
    const session = connect('http://upstream', options)
    this.#session = session
    session.once('connect', () => session.setLocalWindowSize(SESSION_WINDOW))
    session.once('remoteSettings', () => this.#connected())
    session.on('goaway', (_code, lastStreamId) => {
      this.#lastHandled = lastStreamId
      this.retire()
    })
    session.on('error', (error) => this.#failed(error.message))
    session.on('close', () => this.#failed('the connection was closed'))
    const { connectMs } = this.#pool
    this.#settingsTimer = setTimeout(
      () => this.#connectFailed({ kind: 'timeout', cause: `no SETTINGS within ${connectMs} ms` }),
      connectMs,
    )
  }

  #connected(): void {
    clearTimeout(this.#settingsTimer)
    if (this.#socket.destroyed) return
    this.#isConnected = true
    const waiting = [...this.#waiting]
    const max = this.#maxStreams
    this.#pool.connected(max)
    this.#waiting.clear()
    for (const [index, user] of waiting.entries()) {
      if (index < max) user.connected()
      else user.turnedAway()
    }
  }

  #failed(cause: string): void {
    if (this.#isConnected) this.retire()
    else this.#connectFailed({ kind: 'unreachable', cause })
  }

  #connectFailed(fault: UpstreamFault): void {
    clearTimeout(this.#settingsTimer)
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    // An attempt that we gave up says nothing about the upstream.
    if (!this.#isRetired) this.#pool.health.connectFailed(fault.cause)
    this.retire()
    this.#socket.destroy()
    for (const user of waiting) user.connectFailed(fault)
  }

  #end(): void {
    clearTimeout(this.#settingsTimer)
    if (!this.#isConnected) this.#socket.destroy()
    if (this.#socket.destroyed) return
    // Node waits until the upstream closes, which a hanging upstream never does.
    this.#session?.close()
    this.#closeTimer ??= setTimeout(() => this.#socket.destroy(), CLOSE_MS)
  }

  #closed(): void {
    clearTimeout(this.#settingsTimer)
    clearTimeout(this.#pingTimer)
    clearTimeout(this.#closeTimer)
    if (!this.#isRetired) this.#failed('the connection was closed')
    this.#pool.connectionClosed()
  }
}

/** Opens a second session only when the first has no place left. */
export class SessionPool extends Pool<UpstreamSession> {
  /** As many as the last session allowed. With more, each session of a burst would turn requests away. */
  expectedStreams = MAX_STREAMS
  readonly #sessions: UpstreamSession[] = []

  lease(fresh: boolean): UpstreamSession | undefined {
    const known = this.#sessions.find((session) => session.hasRoom)
    if (known !== undefined && !fresh) return known
    return this.#sessions.length < this.maxConnections ? this.#connect() : known
  }

  /** @param streams 0 is ignored, because with it each later request would get its own session */
  connected(streams: number): void {
    if (streams > 0) this.expectedStreams = streams
    this.health.connected()
  }

  retired(session: UpstreamSession): void {
    this.deadlines.remove(session)
    const at = this.#sessions.indexOf(session)
    if (at >= 0) this.#sessions.splice(at, 1)
  }

  protected retireAll(): void {
    for (const session of [...this.#sessions]) session.retire()
  }

  #connect(): UpstreamSession {
    const session = this.opened(new UpstreamSession(this))
    this.#sessions.push(session)
    // Requests that began before the close still go through.
    if (this.isClosing) process.nextTick(() => session.retire())
    return session
  }
}
