export type StreamEnd = 'complete' | 'reset by us' | 'reset by client'

/** Frames for an older one are answered as a fault of the connection. */
const MAX_REMEMBERED = 400

/** The streams of one connection: those that are open, and how the last others ended. */
export class StreamTable<S extends { readonly id: number }> {
  /** The highest that a client has begun. */
  lastId = 0
  readonly #open = new Map<number, S>()
  readonly #ends = new Map<number, StreamEnd>()

  get size(): number {
    return this.#open.size
  }

  get(id: number): S | undefined {
    return this.#open.get(id)
  }

  add(stream: S): void {
    this.#open.set(stream.id, stream)
  }

  /** Visits the streams that are open at the call; `visit` may end any. */
  visitAll(visit: (stream: S) => void): void {
    for (const stream of this.#open.values()) visit(stream)
  }

  /** Begins each time behind the one that was visited last. @param visit says whether to go on */
  takeTurns(visit: (stream: S) => boolean): void {
    let left = this.#open.size
    for (const [id, stream] of this.#open) {
      if (left-- === 0) return
      this.#open.delete(id)
      this.#open.set(id, stream)
      if (!visit(stream)) return
    }
  }

  end(id: number, how: StreamEnd): void {
    this.#open.delete(id)
    this.#ends.set(id, how)
    if (this.#ends.size <= MAX_REMEMBERED) return
    for (const oldest of this.#ends.keys()) {
      this.#ends.delete(oldest)
      return
    }
  }

  /** @returns undefined when it is open, was never begun, or is forgotten */
  endOf(id: number): StreamEnd | undefined {
    return this.#ends.get(id)
  }

  /** Nobody has begun it, and the client still may (RFC 9113 section 5.1.1). */
  isIdle(id: number): boolean {
    return id > this.lastId || id % 2 === 0
  }
}
