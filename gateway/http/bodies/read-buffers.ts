/** What one read takes at most. */
const BUFFER_BYTES = 64 * 1024
/** Of each kind. Beyond that a buffer is left to the garbage collector. */
const MAX_KEPT = 64

/** After a piece of so many bytes a connection reads into a buffer of its own, until the response is whole. */
export const BULK_BYTES = 16 * 1024

/** Takes a body. */
export interface BodyReceiver {
  /** @returns `false` to pause. */
  data(piece: Buffer, nowMs: number): boolean
  /** Pieces have not been written yet: their buffers must stay as they are. */
  readonly isHolding: boolean
}

/** Part of what was read. */
export interface Piece {
  readonly bytes: Buffer
  readonly from: number
  readonly to: number
}

/**
 * All connections of a side read into one buffer between large bodies. What must outlive a read is copied before the next one.
 * So an idle connection holds no buffer, and a read allocates none. Each side has its own, because a write to one side may make
 * TLS read there while a piece from the other side is being handled.
 */
const sharedBuffers: Readonly<Record<Side, Buffer>> = {
  clients: Buffer.allocUnsafeSlow(BUFFER_BYTES),
  upstreams: Buffer.allocUnsafeSlow(BUFFER_BYTES),
}

/** Who is at the other end of a connection. */
export type Side = 'clients' | 'upstreams'

/*
 * Buffers of large bodies. They are used again because allocating 64 KiB for each read makes V8 collect garbage all the time:
 * it counts what lies outside its heap.
 */
const spare: Buffer[] = []
const lent: { readonly buffer: Buffer; readonly holder: BodyReceiver }[] = []

/** A buffer that nobody else reads into. */
function takeBuffer(): Buffer {
  return spare.pop() ?? takeBack() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES)
}

/** Gives back a buffer that nothing refers to any more. */
function giveBuffer(buffer: Buffer): void {
  if (spare.length < MAX_KEPT) spare.push(buffer)
}

/** Gives back a buffer that `holder` still needs for a while. */
export function lendBuffer(buffer: Buffer, holder: BodyReceiver): void {
  if (lent.length < MAX_KEPT) lent.push({ buffer, holder })
}

/** @returns a buffer whose holder does not need it any more. */
function takeBack(): Buffer | undefined {
  const at = lent.findIndex(({ holder }) => !holder.isHolding)
  if (at === -1) return undefined
  const found = lent[at]
  const last = lent.pop()
  if (last !== undefined && at < lent.length) lent[at] = last
  return found?.buffer
}

/** What one connection reads into. */
export class ReadBuffer {
  bytes: Buffer
  /** A large body is being received. */
  isBulk = false
  readonly #shared: Buffer
  /** Who still needs a piece of `bytes`. */
  #holder: BodyReceiver | undefined = undefined

  constructor(side: Side) {
    this.#shared = sharedBuffers[side]
    this.bytes = this.#shared
  }

  /** Called before the first read and after each. Only then may the buffer change: the socket holds the one it was given. */
  next(): Buffer {
    const isShared = this.bytes === this.#shared
    if (!isShared && (this.#holder !== undefined || !this.isBulk)) {
      if (this.#holder === undefined) giveBuffer(this.bytes)
      else lendBuffer(this.bytes, this.#holder)
      this.#holder = undefined
      this.bytes = this.isBulk ? takeBuffer() : this.#shared
    } else if (isShared && this.isBulk) this.bytes = takeBuffer()
    return this.bytes
  }

  /** Passes a piece on: from the shared buffer as a copy, from one of our own as it is. @returns `false` to pause */
  pass({ bytes, from, to }: Piece, receiver: BodyReceiver, nowMs: number): boolean {
    const isShared = bytes === this.#shared
    const isLarge = to - from >= BULK_BYTES
    if (isLarge) this.isBulk = true
    if (!isLarge && (isShared || receiver.isHolding)) return receiver.data(copyOf(bytes, from, to), nowMs)
    if (isShared) return passCopy({ bytes, from, to }, receiver, nowMs)
    const more = receiver.data(bytes.subarray(from, to), nowMs)
    if (receiver.isHolding) this.#holder = receiver
    return more
  }
}

/** Copies a piece of the shared buffer into one that can be used again. */
function passCopy(piece: Piece, receiver: BodyReceiver, nowMs: number): boolean {
  const copy = pooledCopyOf(piece)
  const more = receiver.data(copy.subarray(0, piece.to - piece.from), nowMs)
  if (receiver.isHolding) lendBuffer(copy, receiver)
  else giveBuffer(copy)
  return more
}

/** A copy in a buffer that can be used again, once it is lent. */
export function pooledCopyOf({ bytes, from, to }: Piece): Buffer {
  const buffer = takeBuffer()
  bytes.copy(buffer, 0, from, to)
  return buffer
}

/** Copies part of a buffer that will be overwritten. (`Buffer.copyBytesFrom` would copy it twice.) */
export function copyOf(bytes: Buffer, from: number, to: number): Buffer {
  const copy = Buffer.allocUnsafe(to - from)
  bytes.copy(copy, 0, from, to)
  return copy
}
