import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Deadlines, type Timed } from '../syntax/deadlines.ts'
import { tunnel } from './tunnel.ts'

/** How often a tunnel is looked at. */
const LOOK_MS = 1000

/** Why the caller may no longer use a tunnel that it was allowed. */
export type Lapse = 'session_revoked' | 'token_expired' | 'certificate_refused'

/** Why a tunnel ended. `closed`: by either side; the others are our doing. */
export type TunnelEnd = Lapse | 'closed' | 'idle' | 'timeout' | 'draining'

export interface TunnelTerms {
  /** In which neither side sends anything, milliseconds. */
  readonly idleMs: number
  /** From now on, milliseconds; undefined: as long as it is used. */
  readonly totalMs: number | undefined
  /** Asked once a second. @returns undefined when the caller may go on. */
  lapsed(): Lapse | undefined
  /** Called once, when both sides are closed. */
  ended(why: TunnelEnd): void
}

export interface TunnelsOptions {
  /** Milliseconds that only pass. */
  readonly steadyClock: () => number
  readonly maxTunnels: number
  /** Told how many there are here, whenever that changes. */
  readonly publish?: (count: number) => void
  /** How many there are in other threads. */
  readonly elsewhere?: () => number
}

/** The tunnels of one thread, which are bounded over all threads, and end when their caller may no longer use them. */
export class Tunnels {
  readonly #options: TunnelsOptions
  readonly #open: Deadlines<Tunnel>
  #places = 0

  constructor(options: TunnelsOptions) {
    this.#options = options
    this.#open = new Deadlines(options.steadyClock)
  }

  get size(): number {
    return this.#places
  }

  get isFull(): boolean {
    return this.#places + this.#elsewhere() >= this.#options.maxTunnels
  }

  /** Takes a place for a tunnel, which `open` comes for in the same turn. @returns undefined when all are taken. */
  reserve(): TunnelPlace | undefined {
    this.#count(1)
    // Its own is taken already: of two threads that see the last one go, both may be refused, but never both let in.
    if (this.#places + this.#elsewhere() > this.#options.maxTunnels) {
      this.#count(-1)
      return undefined
    }
    return { open: (downstream, upstream, terms) => this.#begin(downstream, upstream, terms) }
  }

  endAll(why: TunnelEnd): void {
    this.#open.visitAll((one) => one.end(why))
  }

  #begin(downstream: Socket, upstream: Duplex, terms: TunnelTerms): void {
    const one = new Tunnel(downstream, upstream, { terms, nowMs: this.#options.steadyClock() })
    this.#open.add(one)
    tunnel(downstream, upstream, () => {
      this.#open.remove(one)
      this.#count(-1)
      terms.ended(one.why)
    })
  }

  #elsewhere(): number {
    return this.#options.elsewhere?.() ?? 0
  }

  #count(change: number): void {
    this.#places += change
    this.#options.publish?.(this.#places)
  }
}

export interface TunnelPlace {
  open(downstream: Socket, upstream: Duplex, terms: TunnelTerms): void
}

class Tunnel implements Timed {
  slot = -1
  /** Why it ends, unless one of its sides closes it. */
  why: TunnelEnd = 'closed'
  readonly #downstream: Socket
  readonly #upstream: Duplex
  readonly #terms: TunnelTerms
  readonly #endMs: number
  /** What had come from and gone to the client when that was last seen to change, and the time of it. */
  #movedBytes: number
  #movedMs: number
  #lookMs: number

  constructor(
    downstream: Socket,
    upstream: Duplex,
    { terms, nowMs }: { readonly terms: TunnelTerms; readonly nowMs: number },
  ) {
    this.#downstream = downstream
    this.#upstream = upstream
    this.#terms = terms
    this.#endMs = nowMs + (terms.totalMs ?? Number.POSITIVE_INFINITY)
    this.#movedBytes = bytesOf(downstream)
    this.#movedMs = nowMs
    this.#lookMs = this.#nextLook(nowMs)
  }

  checkTime(nowMs: number): void {
    if (nowMs < this.#lookMs || this.#downstream.destroyed) return
    const moved = bytesOf(this.#downstream)
    if (moved !== this.#movedBytes) {
      this.#movedBytes = moved
      this.#movedMs = nowMs
    }
    this.#lookMs = this.#nextLook(nowMs)
    const why = this.#overAt(nowMs)
    if (why !== undefined) this.end(why)
  }

  end(why: TunnelEnd): void {
    this.why = why
    this.#downstream.destroy()
    this.#upstream.destroy()
  }

  #overAt(nowMs: number): TunnelEnd | undefined {
    if (nowMs >= this.#endMs) return 'timeout'
    if (nowMs >= this.#movedMs + this.#terms.idleMs) return 'idle'
    return this.#terms.lapsed()
  }

  #nextLook(nowMs: number): number {
    return Math.min(nowMs + LOOK_MS, this.#endMs, this.#movedMs + this.#terms.idleMs)
  }
}

/** What waits to be taken does not count as gone: bytes that are only heaped up move nothing. */
function bytesOf(socket: Socket): number {
  return socket.bytesRead + socket.bytesWritten - socket.writableLength
}
