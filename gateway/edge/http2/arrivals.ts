/** Limits of the requests that begin in one turn of the event loop: of one connection, and of all. */
const BEGINS_OF_ONE = 10
const BEGINS_OF_ALL = 64

const turns = {
  /** Connections whose requests wait. They take turns, one request each. */
  waiting: new Set<{ beginOne(): void }>(),
  left: BEGINS_OF_ALL,
  isAwaited: false,
}

/** True while requests that have come have not begun. */
export function areRequestsWaiting(): boolean {
  return turns.waiting.size > 0
}

function awaitTurn(): void {
  if (turns.isAwaited) return
  turns.isAwaited = true
  setImmediate(nextTurn)
}

function nextTurn(): void {
  turns.isAwaited = false
  turns.left = BEGINS_OF_ALL
  for (let round = 0; round < BEGINS_OF_ONE; round++) {
    for (const arrivals of [...turns.waiting]) {
      if (turns.left === 0) break
      arrivals.beginOne()
    }
  }
  if (turns.waiting.size > 0) awaitTurn()
}

/** Requests of one connection that have not begun, in order. */
export class Arrivals<S> {
  readonly #begin: (stream: S) => void
  #streams: S[] = []

  constructor(begin: (stream: S) => void) {
    this.#begin = begin
  }

  add(stream: S): void {
    this.#streams.push(stream)
  }

  /** Begins requests. Call it after a read, so that short bodies are complete, and reset requests do not begin. */
  readOver(): void {
    if (this.#streams.length === 0 || turns.waiting.has(this)) return
    awaitTurn()
    for (let count = 0; count < BEGINS_OF_ONE && turns.left > 0 && this.#streams.length > 0; count++)
      this.beginOne()
    if (this.#streams.length > 0) turns.waiting.add(this)
  }

  beginOne(): void {
    const stream = this.#streams.shift()
    turns.waiting.delete(this)
    if (stream === undefined) return
    if (this.#streams.length > 0) turns.waiting.add(this)
    turns.left--
    this.#begin(stream)
  }

  /** @returns how many will never begin */
  drop(): number {
    const { length } = this.#streams
    this.#streams = []
    turns.waiting.delete(this)
    return length
  }
}
