import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Exchange } from './exchange.ts'
import type { Gateway } from './gateway.ts'
import { interrupt } from './pipeline.ts'
import type { Refusal } from './refusals.ts'

/** Requests that may wait behind one that is being answered; beyond it the connection goes. */
const MAX_PIPELINED = 128
/** How long a client that has closed its half is waited for, unless it takes something of an answer in that time. */
const HALF_CLOSED_MS = 500

/** Why the rest of a request will not come: a refusal to answer it with, or the client has closed the connection. */
export type Break = Refusal | 'gone'

/** A request whose turn on its connection will come. */
export interface Turn {
  readonly req: IncomingMessage
  /** `refused`: its rest will not come, and this is its answer. */
  readonly begin: (refused: Refusal | undefined) => Exchange
  broken?: Break
}

/**
 * One downstream connection. Requests that a client pipelines are carried out one after the other: started side by
 * side, two transfers could be carried out in the wrong order (RFC 9112 section 9.3.2).
 */
export class Connection {
  readonly #gateway: Gateway
  readonly #socket: Socket
  readonly #waiting: Turn[] = []
  #current: Exchange | undefined = undefined
  /** A request has been parsed on it. */
  used = false
  /** The parser has given up on it: what still comes is not looked at. */
  failed = false
  /** The request that stays an ordinary one although it asks for another protocol. */
  keptOrdinary: IncomingMessage | undefined = undefined

  constructor(gateway: Gateway, socket: Socket) {
    this.#gateway = gateway
    this.#socket = socket
    socket.once('end', () => this.#awaitHalfClosed())
  }

  get idle(): boolean {
    return this.#current === undefined
  }

  /** Begins the request now, or when the exchanges before it have ended. */
  take(turn: Turn): void {
    this.used = true
    if (this.#waiting.length >= MAX_PIPELINED) this.#socket.destroy()
    if (this.idle) this.#start(turn)
    else this.#waiting.push(turn)
  }

  /** Breaks the request that came last in its middle. @returns false when it was whole, or there is none. */
  breakLatest(why: Break): boolean {
    const waiting = this.#waiting.at(-1)
    const latest = waiting ?? this.#current
    if (latest === undefined || latest.req.complete) return false
    if (waiting !== undefined) waiting.broken = why
    else if (this.#current !== undefined) this.#break(this.#current, why)
    return true
  }

  #start(turn: Turn): void {
    const { broken } = turn
    if (broken === 'gone') this.#socket.destroy()
    // Never begun as if it were whole: its first half could already be upstream when it is broken off.
    const exchange = turn.begin(broken === 'gone' ? undefined : broken)
    // The client has gone, or was told `Connection: close`: nothing more is carried out (RFC 9112 section 9.6).
    if (!this.#socket.writable) return
    this.#current = exchange
    exchange.res.once('close', () => this.#next())
  }

  /** Requests that can no longer be begun have their audit pair all the same. */
  #next(): void {
    this.#current = undefined
    while (this.#current === undefined) {
      const turn = this.#waiting.shift()
      if (turn === undefined) return
      this.#start(turn)
    }
  }

  #break(exchange: Exchange, why: Break): void {
    if (why === 'gone') this.#socket.destroy()
    else interrupt(this.#gateway, exchange, why)
  }

  /**
   * A client that has gone and one that has only said all it will say look alike, until something is sent: one that has
   * gone answers with a reset.
   */
  #awaitHalfClosed(): void {
    // A tunnel ends when its two sides do.
    if (this.#current === undefined || this.#current.closed) return
    const written = this.#socket.bytesWritten
    const timer = setTimeout(() => {
      if (this.#socket.bytesWritten === written) this.#socket.destroy()
    }, HALF_CLOSED_MS)
    this.#socket.once('close', () => clearTimeout(timer))
  }
}
