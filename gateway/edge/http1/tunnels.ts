import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { FairPermits } from '../rules/fair-share.ts'
import { Deadlines, type Timed } from '../syntax/deadlines.ts'
import { takenBytes } from './sockets/write-watch.ts'

const CHECK_MS = 1000

export type Lapse = 'session_revoked' | 'token_expired' | 'certificate_refused'

/** `closed`: by either side; all others: by the gateway. */
export type TunnelEnd = Lapse | 'closed' | 'idle' | 'timeout' | 'draining'

export interface TunnelTerms {
  /** Longest silence of both sides. */
  readonly idleMs: number
  /** Longest life. Undefined: unlimited. */
  readonly totalMs: number | undefined
  /** Called once a second. @returns undefined while the caller may go on */
  lapsed(): Lapse | undefined
  ended(why: TunnelEnd): void
}

/** All tunnels, bounded in number. Each ends when its caller may no longer use it. */
export class Tunnels extends FairPermits {
  readonly #steadyClock: () => number
  readonly #open: Deadlines<Tunnel>
  /** Set once all were ended. A tunnel that begins later, after a held response, ends too. */
  #endedAll: TunnelEnd | undefined = undefined

  constructor(maxTunnels: number, steadyClock: () => number) {
    super(maxTunnels)
    this.#steadyClock = steadyClock
    this.#open = new Deadlines(steadyClock)
  }

  endAll(why: TunnelEnd): void {
    this.#endedAll = why
    this.#open.visitAll((one) => one.end(why))
  }

  /** Begins a tunnel with a permit that `caller` has taken. Its end releases the permit. */
  open(caller: string, downstream: Socket, upstream: Duplex, terms: TunnelTerms): void {
    const one = new Tunnel(downstream, upstream, terms, this.#steadyClock())
    this.#open.add(one)
    tunnel(downstream, upstream, () => {
      this.#open.remove(one)
      this.release(caller)
      terms.ended(one.why)
    })
    if (this.#endedAll !== undefined) one.end(this.#endedAll)
  }
}

class Tunnel implements Timed {
  slot = -1
  why: TunnelEnd = 'closed'
  readonly #downstream: Socket
  readonly #upstream: Duplex
  readonly #terms: TunnelTerms
  readonly #endMs: number
  /** The value of `bytesOf` at its last change, and the time of the change. */
  #movedBytes: number
  #movedMs: number
  #nextCheckMs: number

  constructor(downstream: Socket, upstream: Duplex, terms: TunnelTerms, nowMs: number) {
    this.#downstream = downstream
    this.#upstream = upstream
    this.#terms = terms
    this.#endMs = nowMs + (terms.totalMs ?? Number.POSITIVE_INFINITY)
    this.#movedBytes = bytesOf(downstream)
    this.#movedMs = nowMs
    this.#nextCheckMs = this.#nextCheck(nowMs)
  }

  checkTime(nowMs: number): void {
    if (nowMs < this.#nextCheckMs || this.#downstream.destroyed) return
    const moved = bytesOf(this.#downstream)
    if (moved !== this.#movedBytes) {
      this.#movedBytes = moved
      this.#movedMs = nowMs
    }
    this.#nextCheckMs = this.#nextCheck(nowMs)
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

  #nextCheck(nowMs: number): number {
    return Math.min(nowMs + CHECK_MS, this.#endMs, this.#movedMs + this.#terms.idleMs)
  }
}

/** Bytes from and to the client, without those in our queue. */
function bytesOf(socket: Socket): number {
  return socket.bytesRead + takenBytes(socket)
}

const LAST_BYTES_MS = 10_000

/** Copies both ways until both sides have ended or one has failed. @param onEnd called once, when both are closed */
export function tunnel(downstream: Duplex, upstream: Duplex, onEnd: () => void): void {
  let open = 2
  let lastBytes: NodeJS.Timeout | undefined
  const windDown = () => {
    lastBytes ??= setTimeout(() => {
      downstream.destroy()
      upstream.destroy()
    }, LAST_BYTES_MS)
  }
  const join = (side: Duplex, other: Duplex) => {
    // `close` follows.
    side.on('error', () => {})
    side.once('end', windDown)
    side.once('close', () => {
      windDown()
      open -= 1
      if (open === 0) {
        clearTimeout(lastBytes)
        onEnd()
      } else if (side.errored !== null || other.writableFinished) other.destroy()
      else other.end(() => other.destroy())
    })
    side.pipe(other)
  }
  join(upstream, downstream)
  join(downstream, upstream)
}
