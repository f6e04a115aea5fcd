interface PieceHolder {
  /** True while pieces have not been written. Meanwhile their buffers must not change. */
  readonly isHolding: boolean
}

/** Buffers of one size that are used again. A new one for each read would keep V8's garbage collector busy. */
class BufferPool {
  readonly #bytes: number
  readonly #kept: number
  #most: number
  /** Number of buffers that exist: spare, lent, or taken. */
  #made = 0
  readonly #spare: Buffer[] = []
  readonly #lent: { readonly buffer: Buffer; readonly holder: PieceHolder }[] = []
  /** Number of spare buffers that were not needed since the last {@link trim}. */
  #unused = 0

  /** @param kept how many spare buffers, and how many lent ones, are kept @param most how many buffers may exist */
  constructor({ bytes, kept, most }: { bytes: number; kept: number; most: number }) {
    this.#bytes = bytes
    this.#kept = kept
    this.#most = most
  }

  bound(most: number): void {
    this.#most = Math.min(most, this.#kept)
  }

  /** @returns undefined while no more may exist */
  take(): Buffer | undefined {
    const buffer = this.#spare.pop() ?? this.#takeBack()
    this.#unused = Math.min(this.#unused, this.#spare.length)
    if (buffer !== undefined) return buffer
    if (this.#made >= this.#most) return undefined
    this.#made += 1
    return Buffer.allocUnsafeSlow(this.#bytes)
  }

  give(buffer: Buffer): void {
    if (this.#spare.length < this.#kept && this.#made <= this.#most) this.#spare.push(buffer)
    else this.#made -= 1
  }

  /** Gives back a buffer that `holder` still needs. */
  lend(buffer: Buffer, holder: PieceHolder): void {
    if (this.#lent.length < this.#kept) this.#lent.push({ buffer, holder })
    else this.#made -= 1
  }

  /** Frees the spare buffers not needed since the last call. */
  trim(): void {
    for (let lent = this.#takeBack(); lent !== undefined; lent = this.#takeBack()) this.give(lent)
    // This frees at once. The collector may come much later, or never.
    for (const buffer of this.#spare.splice(0, this.#unused)) (buffer.buffer as ArrayBuffer).transfer(0)
    this.#made -= this.#unused
    this.#unused = this.#spare.length
  }

  #takeBack(): Buffer | undefined {
    const at = this.#lent.findIndex(({ holder }) => !holder.isHolding)
    if (at === -1) return undefined
    const found = this.#lent[at]
    const last = this.#lent.pop()
    if (last !== undefined && at < this.#lent.length) this.#lent[at] = last
    return found?.buffer
  }
}

/** A read that reaches this offset is full. */
const FULL_BYTES = 64 * 1024
/** Largest read: a response of 64 KiB with its head. */
const BUFFER_BYTES = 68 * 1024
const MAX_KEPT = 64
/** Largest read after `FULL_READS` full reads of a body in a row. */
const LARGE_BYTES = 256 * 1024
const FULL_READS = 2
const MAX_LARGE = 32

/** After a piece of this size, a connection has its own buffer until the body is whole. */
export const BULK_BYTES = 16 * 1024

export interface BodyReceiver extends PieceHolder {
  /** @returns `false` to pause */
  data(piece: Buffer, nowMs: number): boolean
}

export interface Piece {
  readonly bytes: Buffer
  readonly from: number
  readonly to: number
}

/** Connections read into these while no large body comes. TLS may read into one while we use the other. */
const sharedBuffers: Readonly<Record<Side, Buffer>> = {
  clients: Buffer.allocUnsafeSlow(FULL_BYTES),
  upstreams: Buffer.allocUnsafeSlow(BUFFER_BYTES),
}

type Side = 'clients' | 'upstreams'

const buffers = new BufferPool({ bytes: BUFFER_BYTES, kept: MAX_KEPT, most: Number.POSITIVE_INFINITY })
const largeBuffers = new BufferPool({ bytes: LARGE_BYTES, kept: MAX_LARGE, most: MAX_LARGE })

export function boundLargeBuffers(most: number): void {
  largeBuffers.bound(most)
}

export function trimBuffers(): void {
  buffers.trim()
  largeBuffers.trim()
}

function takeBuffer(): Buffer {
  return buffers.take() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES)
}

/** Ignores a buffer of another size, which belongs to no pool. */
export function giveBack(buffer: Buffer, holder: PieceHolder | undefined): void {
  const isLarge = buffer.length === LARGE_BYTES
  if (!isLarge && buffer.length !== BUFFER_BYTES) return
  const pool = isLarge ? largeBuffers : buffers
  if (holder === undefined) pool.give(buffer)
  else pool.lend(buffer, holder)
}

export class ReadBuffer {
  bytes: Buffer
  isBulk = false
  readonly #shared: Buffer
  /** The receiver that still needs a piece of `bytes`. */
  #holder: PieceHolder | undefined = undefined
  #isFull = false
  #fullReads = 0

  constructor(side: Side) {
    this.#shared = sharedBuffers[side]
    this.bytes = this.#shared
  }

  /** Called between reads only, because the socket keeps the buffer that it was given. */
  next(): Buffer {
    if (this.isBulk) this.#nextOfBody()
    else if (this.bytes !== this.#shared) this.release()
    return this.bytes
  }

  #nextOfBody(): void {
    this.#fullReads = this.#isFull ? this.#fullReads + 1 : 0
    this.#isFull = false
    const deservesLarge = this.#fullReads >= FULL_READS
    const isLarge = this.bytes.length === LARGE_BYTES
    const isInUse = this.bytes === this.#shared || this.#holder !== undefined
    const large = deservesLarge && (isInUse || !isLarge) ? largeBuffers.take() : undefined
    const mustChange = isInUse || (isLarge && !deservesLarge)
    if (large !== undefined || mustChange) this.#replace(large ?? takeBuffer())
  }

  release(): void {
    this.#fullReads = 0
    this.#isFull = false
    this.#replace(this.#shared)
  }

  #replace(next: Buffer): void {
    if (this.bytes !== this.#shared) giveBack(this.bytes, this.#holder)
    this.#holder = undefined
    this.bytes = next
  }

  /**
   * Passes a piece. Copies it if it is in the shared buffer, or if it is short and the receiver holds other pieces.
   * @returns `false` to pause
   */
  pass(piece: Piece, receiver: BodyReceiver, nowMs: number): boolean {
    const { bytes, from, to } = piece
    const isShared = bytes === this.#shared
    const isLarge = to - from >= BULK_BYTES
    if (isLarge) this.isBulk = true
    if (to >= FULL_BYTES) this.#isFull = true
    if (!isLarge && (isShared || receiver.isHolding)) return receiver.data(copyOf(bytes, from, to), nowMs)
    const copy = isShared ? pooledCopyOf(piece) : undefined
    const more = receiver.data(copy?.subarray(0, to - from) ?? bytes.subarray(from, to), nowMs)
    const holder = receiver.isHolding ? receiver : undefined
    if (copy !== undefined) giveBack(copy, holder)
    else this.#holder = holder ?? this.#holder
    return more
  }
}

/** Copies into a buffer for `giveBack`, or into new memory when the piece is too long. */
export function pooledCopyOf(piece: Piece): Buffer {
  const { bytes, from, to } = piece
  if (to - from > BUFFER_BYTES) return copyOf(bytes, from, to)
  const buffer = takeBuffer()
  bytes.copy(buffer, 0, from, to)
  return buffer
}

/** Copies bytes that will be overwritten. `Buffer.copyBytesFrom` would copy them twice. */
export function copyOf(bytes: Buffer, from: number, to: number): Buffer {
  const copy = Buffer.allocUnsafe(to - from)
  bytes.copy(copy, 0, from, to)
  return copy
}
