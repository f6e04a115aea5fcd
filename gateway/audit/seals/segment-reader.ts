import { closeSync, fdatasyncSync, fstatSync, openSync, readSync, writeSync } from 'node:fs'
import type { SharedTrail } from '../file/shared-trail.ts'
import { blocksOf } from '../segments/read-segment.ts'
import type { Segment } from '../segments/segment.ts'
import type { LineHasher } from './line-hasher.ts'

/** Reads the lines of a segment once, from a position in its plain text on. */
export interface SegmentReader {
  readonly inode: string
  /** Bytes of the plain text that have been read. */
  readonly position: number
  /** It has no name any more: its room is free when nobody has it open. */
  readonly isRemoved: boolean
  /** Reads at most so far. @returns how many bytes the hasher got; 0: there are no more now. @throws Error of the system. */
  read(hasher: LineHasher, end: number): Promise<number>
  /** Waits until what was read is on the disk. */
  sync(): void
  close(): void
}

/** The disk may have dropped some of it, and would not say so again: see `PlainReader`. Undefined: there is no doubt. */
export interface Doubt {
  /** It cannot be mended. */
  onLasting(fault: string): void
}

/** Where to go on reading. */
export interface Place {
  readonly segments: readonly Pick<Segment, 'path' | 'compression'>[]
  readonly index: number
  readonly position: number
}

export function plain(path: string): Pick<Segment, 'path' | 'compression'> {
  return { path, compression: 'none' }
}

/** @throws Error of the system. */
export function readerOf(
  segment: Pick<Segment, 'path' | 'compression'>,
  position: number,
  doubt: Doubt | undefined,
): SegmentReader {
  return segment.compression === 'none'
    ? new PlainReader(segment.path, position, doubt)
    : new CompressedReader(segment, position)
}

/**
 * Of a file that may still grow. It is followed when it is renamed.
 *
 * After a failed `fdatasync` Linux keeps what it could not write in memory, takes it for written, and says so to each
 * descriptor once: a later `fdatasync` succeeds without it. So what is doubtful is written again, byte for byte in its place,
 * as it is read. An error that comes after the opening is reported to this reader.
 */
class PlainReader implements SegmentReader {
  readonly inode: string
  readonly #fd: number
  #position: number
  /** Up to here it is written again. */
  readonly #doubtfulEnd: number

  constructor(path: string, position: number, doubt: Doubt | undefined) {
    const fd = doubt && openToMend(path)
    if (fd === undefined) {
      doubt?.onLasting(
        `${path} is append-only: what the disk may have dropped when it failed cannot be written again`,
      )
    }
    this.#fd = fd ?? openSync(path, 'r')
    this.#position = position
    const { ino, size } = fstatSync(this.#fd, { bigint: true })
    this.inode = ino.toString()
    this.#doubtfulEnd = fd === undefined ? 0 : Number(size)
  }

  get position(): number {
    return this.#position
  }

  get isRemoved(): boolean {
    return fstatSync(this.#fd).nlink === 0
  }

  async read(hasher: LineHasher, end: number): Promise<number> {
    const { space } = hasher
    const wanted = Math.min(space.length, end - this.#position)
    const count = wanted > 0 ? readSync(this.#fd, space, 0, wanted, this.#position) : 0
    if (count === 0) this.#checkLength()
    if (this.#position < this.#doubtfulEnd) this.#writeAgain(space.subarray(0, count))
    this.#position += count
    hasher.take(count)
    return count
  }

  sync(): void {
    fdatasyncSync(this.#fd)
  }

  close(): void {
    closeSync(this.#fd)
  }

  #writeAgain(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; )
      at += writeSync(this.#fd, bytes, at, bytes.length - at, this.#position + at)
  }

  #checkLength(): void {
    const { size } = fstatSync(this.#fd)
    if (size >= this.#position) return
    throw new Truncated(`the audit file became shorter: ${size} bytes, and ${this.#position} were sealed`)
  }
}

/** @returns undefined when the file is append-only (`chattr +a`): then nothing can be mended. */
function openToMend(path: string): number | undefined {
  try {
    return openSync(path, 'r+')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EPERM') return undefined
    throw error
  }
}

/** Sealed lines are no longer in the file that is written. */
export class Truncated extends Error {}

/** Of a closed segment. */
class CompressedReader implements SegmentReader {
  readonly inode: string
  readonly isRemoved = false
  readonly #blocks: AsyncGenerator<Buffer, void, undefined>
  /** Bytes that are not to be read. */
  readonly #start: number
  #position = 0

  constructor(segment: Pick<Segment, 'path' | 'compression'>, start: number) {
    // The inode of the file that was compressed is not known any more.
    this.inode = ''
    this.#blocks = blocksOf(segment)
    this.#start = start
  }

  get position(): number {
    return this.#position
  }

  async read(hasher: LineHasher): Promise<number> {
    const { value: block } = await this.#blocks.next()
    if (block === undefined) return 0
    const skipped = Math.max(0, Math.min(block.length, this.#start - this.#position))
    hasher.push(block.subarray(skipped))
    this.#position += block.length
    return block.length
  }

  sync(): void {}

  close(): void {
    void this.#blocks.return()
  }
}

/** The file that the trail is written to. */
export interface FileInUse {
  readonly generation: number
  readonly inode: string
}

/** @returns undefined while a rotation closes it. */
export function fileInUse(trail: Pick<SharedTrail, 'committed' | 'generation'>): FileInUse | undefined {
  const { generation, fd } = trail.committed()
  try {
    const inode = fstatSync(fd, { bigint: true }).ino.toString()
    return generation === trail.generation ? { generation, inode } : undefined
  } catch {
    return undefined
  }
}
