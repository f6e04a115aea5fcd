import {
  closeSync,
  createReadStream,
  fstatSync,
  openSync,
  type ReadStream,
  readdirSync,
  statSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { createGunzip, createZstdDecompress } from 'node:zlib'
import { plainPath, type Segment } from './segment.ts'

/** With the inode, a file that was renamed or compressed since is found. */
type Source = Pick<Segment, 'path' | 'compression'> & Partial<Pick<Segment, 'inode'>>

const CHUNK_BYTES = 1024 * 1024
const NEWLINE = 10
/** A line of the trail is far below this; more is a file that is no trail, or made to fill the memory of its reader. */
const MAX_LINE_BYTES = 64 * 1024 * 1024
/** Lines of a trail are compressed by 10 to 50. More than this, after the first bytes, is a file made to keep a reader busy. */
const MAX_RATIO = 1000
const RATIO_FROM_BYTES = 64 * 1024 * 1024

const TIMESTAMP_KEY = '"timestamp":"'
/** Of the lines of a trail; the timestamp stands behind type and request id, which have at most 128 characters. */
export const HEAD_BYTES = 512

/**
 * The bytes of a segment from its beginning, decompressed, in blocks that end with a line. Only the last block may end
 * without `\n`: a torn line, or one that is being written. Memory does not grow with the segment.
 *
 * @param fromByte where a line begins, decompressed.
 * @throws Error that names the file: missing, torn, damaged, or compressed in a way that cannot be read here.
 */
export async function* blocksOf(segment: Source, fromByte = 0): AsyncGenerator<Buffer, void, undefined> {
  let pieces: Buffer[] = []
  let carriedBytes = 0
  for await (const chunk of chunksOf(segment, fromByte)) {
    const end = chunk.lastIndexOf(NEWLINE) + 1
    if (end > 0) {
      yield pieces.length === 0 ? chunk.subarray(0, end) : Buffer.concat([...pieces, chunk.subarray(0, end)])
      pieces = []
      carriedBytes = 0
    }
    if (end < chunk.length) pieces.push(chunk.subarray(end))
    carriedBytes += chunk.length - end
    if (carriedBytes > MAX_LINE_BYTES) {
      throw unreadable(segment.path, `a line of more than ${MAX_LINE_BYTES} bytes: this is no audit trail`)
    }
  }
  if (pieces.length > 0) yield Buffer.concat(pieces)
}

/** The lines of a block, each with its `\n`; a torn last line has none. They share the memory of the block. */
export function* linesIn(block: Buffer): Generator<Buffer, void, undefined> {
  for (let at = 0; at < block.length; ) {
    const newline = block.indexOf(NEWLINE, at)
    const end = newline === -1 ? block.length : newline + 1
    yield block.subarray(at, end)
    at = end
  }
}

/** The `timestamp` of a line in milliseconds since the epoch; undefined when it has none. */
export function timeOf(line: Buffer): number | undefined {
  // No value can hold the key, because quotes inside values are escaped.
  const head = line.toString('latin1', 0, Math.min(line.length, HEAD_BYTES))
  const at = head.indexOf(TIMESTAMP_KEY)
  if (at === -1) return undefined
  const start = at + TIMESTAMP_KEY.length
  const ms = Date.parse(head.slice(start, head.indexOf('"', start)))
  return Number.isNaN(ms) ? undefined : ms
}

/** Times of the first and the last record that have one, milliseconds. A record's time is the start of its request. */
export interface TimeSpan {
  readonly firstMs: number
  readonly lastMs: number
}

/**
 * Reads all of the segment: where the segments of a trail are in order, the first time of the next (`firstLineOf`) is a
 * bound that costs less.
 *
 * @returns undefined when no line has a time. @throws Error as `blocksOf`.
 */
export async function spanOf(segment: Segment): Promise<TimeSpan | undefined> {
  let firstMs: number | undefined
  let lastMs: number | undefined
  for await (const block of blocksOf(segment)) {
    for (const line of firstMs === undefined ? linesIn(block) : []) {
      firstMs = timeOf(line)
      if (firstMs !== undefined) break
    }
    const lastLine = block.lastIndexOf(NEWLINE, -2) + 1
    lastMs = timeOf(block.subarray(lastLine)) ?? lastMs
  }
  return firstMs === undefined ? undefined : { firstMs, lastMs: lastMs ?? firstMs }
}

/** The first line, with its `\n` if it is whole; undefined when the segment is empty. @throws Error as `blocksOf`. */
export async function firstLineOf(segment: Source): Promise<Buffer | undefined> {
  for await (const block of blocksOf(segment)) return linesIn(block).next().value ?? undefined
  return undefined
}

/**
 * The descriptor of a segment that is not compressed, under whatever name it has by now; undefined when it is compressed.
 *
 * @throws Error as `blocksOf`.
 */
export function openPlain(segment: Source): number | undefined {
  if (segment.compression !== 'none') return undefined
  try {
    const { fd, compression } = openSegment(segment)
    if (compression === 'none') return fd
    closeSync(fd)
    return undefined
  } catch (error) {
    throw unreadable(segment.path, error as NodeJS.ErrnoException)
  }
}

async function* chunksOf(segment: Source, fromByte: number): AsyncGenerator<Buffer> {
  try {
    const { fd, compression } = openSegment(segment)
    const isPlain = compression === 'none'
    const source = createReadStream('', { fd, start: isPlain ? fromByte : 0, highWaterMark: CHUNK_BYTES })
    if (isPlain) yield* source
    else {
      let left = fromByte
      for await (const chunk of decompressed(source, segment.path, compression)) {
        if (left < chunk.length) yield chunk.subarray(left)
        left = Math.max(0, left - chunk.length)
      }
    }
  } catch (error) {
    throw unreadable(segment.path, error as NodeJS.ErrnoException)
  }
}

/** The gateway may have renamed or compressed it since it was listed. */
function openSegment({ path, compression, inode }: Source): {
  fd: number
  compression: Segment['compression']
} {
  const isPlain = compression === 'none'
  for (const name of [path, ...(inode !== undefined && isPlain ? namesOf(path, inode) : [])]) {
    const fd = openIfThere(name)
    if (fd === undefined) continue
    if (inode === undefined || fstatSync(fd, { bigint: true }).ino.toString() === inode)
      return { fd, compression }
    closeSync(fd)
  }
  const fd = isPlain ? openIfThere(`${path}.zst`) : undefined
  if (fd !== undefined) return { fd, compression: 'zstd' }
  closeSync(openSync(path, 'r'))
  throw new Error('it is another file now: the trail was rotated while it was read')
}

/** Other names of the file in its directory. */
function namesOf(path: string, inode: string): string[] {
  return readdirSync(dirname(path))
    .map((name) => join(dirname(path), name))
    .filter((other) => statSync(other, { bigint: true, throwIfNoEntry: false })?.ino.toString() === inode)
}

function openIfThere(path: string): number | undefined {
  try {
    return openSync(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

async function* decompressed(
  source: ReadStream,
  path: string,
  compression: Segment['compression'],
): AsyncGenerator<Buffer> {
  if (compression !== 'zstd' && compression !== 'gzip') {
    throw new Error(`it is compressed with ${compression}: decompress it to ${plainPath(path)} first`)
  }
  const options = { chunkSize: CHUNK_BYTES }
  const target = compression === 'zstd' ? createZstdDecompress(options) : createGunzip(options)
  // `pipe` leaves the errors of the source alone.
  source.on('error', (error) => target.destroy(error))
  let bytes = 0
  try {
    for await (const chunk of source.pipe(target) as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes > RATIO_FROM_BYTES && bytes > source.bytesRead * MAX_RATIO) {
        throw new Error(`it grows to more than ${MAX_RATIO} times its size: this is no audit trail`)
      }
      yield chunk
    }
    // Node stops at the first byte that begins no frame, and says nothing. Behind it lines may be hidden.
    const isWhole = compression !== 'zstd' || target.bytesWritten === source.bytesRead
    if (!isWhole)
      throw new Error(`what stands from byte ${target.bytesWritten} on is not compressed with zstd`)
  } finally {
    source.destroy()
  }
}

function unreadable(path: string, cause: NodeJS.ErrnoException | string): Error {
  const { code, message } = typeof cause === 'string' ? { code: undefined, message: cause } : cause
  const reason = code === 'Z_BUF_ERROR' ? 'the compressed file ends too early: it was torn or cut' : message
  return new Error(`audit file ${path} cannot be read: ${reason}`, { cause })
}
