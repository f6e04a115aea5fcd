import { closeSync, createReadStream, fstatSync, readdirSync, readSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { openRegularFile, readAt, regularStats } from '../../storage/regular-file.ts'
import { plainPath, type Segment } from './segment.ts'

type Source = Pick<Segment, 'path' | 'compression'> & Partial<Pick<Segment, 'inode'>>

const CHUNK_BYTES = 1024 * 1024
const MIN_CHUNK_BYTES = 64 * 1024
const USUAL_RATIO = 10
export const NEWLINE = 10
/** A longer line is of no trail, or was made to fill the memory. */
const MAX_LINE_BYTES = 64 * 1024 * 1024
/** Compression makes a trail 10 to 50 times smaller. A file with a much higher ratio would only keep a reader busy. */
const MAX_RATIO = 1000
const RATIO_FROM_BYTES = 64 * 1024 * 1024
/** Above this ratio lines are counted, because each line of a trail takes some compressed bytes. */
const SUSPECT_RATIO = 50
const FIRST_LINE_BYTES = 4096
/** Usually holds the first block of zstd (128 KiB of plain text). */
const FIRST_BLOCK_BYTES = 32 * 1024
const TIMESTAMP_KEY = '"timestamp":"'
/** Enough for the type, a request id of up to 128 characters and the timestamp. */
export const HEAD_BYTES = 512

/** Loaded only for compressed segments: it costs 7 ms of a start. */
const zlib = () => process.getBuiltinModule('node:zlib')

/**
 * Gives decompressed bytes in blocks of whole lines; only the last may end within a line. Memory is bounded.
 * @param fromByte where a line begins @throws Error that names the file and the reason
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

/** Lines of a block with their `\n`, which a torn last line lacks. They share the memory of the block. */
export function* linesIn(block: Buffer): Generator<Buffer, void, undefined> {
  for (let at = 0; at < block.length; ) {
    const newline = block.indexOf(NEWLINE, at)
    const end = newline === -1 ? block.length : newline + 1
    yield block.subarray(at, end)
    at = end
  }
}

export function timeOf(line: Buffer): number | undefined {
  // No value can hold this key, because quotes in values are escaped.
  const head = line.toString('latin1', 0, Math.min(line.length, HEAD_BYTES))
  const at = head.indexOf(TIMESTAMP_KEY)
  if (at === -1) return undefined
  const start = at + TIMESTAMP_KEY.length
  const ms = Date.parse(head.slice(start, head.indexOf('"', start)))
  return Number.isNaN(ms) ? undefined : ms
}

/** @throws Error as `blocksOf` */
export async function firstLineOf(segment: Source): Promise<Buffer | undefined> {
  const head = headOf(segment)
  const end = head.indexOf(NEWLINE) + 1
  if (end > 0) return Buffer.from(head.subarray(0, end))
  for await (const block of blocksOf(segment)) return linesIn(block).next().value ?? undefined
  return undefined
}

/** Finds a segment even if it was renamed; undefined when it is compressed. @throws Error as `blocksOf` */
export function withPlain<T>(segment: Source, run: (fd: number) => T): T | undefined {
  if (segment.compression !== 'none') return undefined
  const { fd, compression } = opened(segment)
  try {
    return compression === 'none' ? run(fd) : undefined
  } finally {
    closeSync(fd)
  }
}

function opened(segment: Source): ReturnType<typeof openSegment> {
  try {
    return openSegment(segment)
  } catch (error) {
    throw unreadable(segment.path, error as NodeJS.ErrnoException)
  }
}

/** The first bytes, decompressed without a costly stream; empty when that cannot be done. */
function headOf(segment: Source): Buffer {
  const { fd, compression } = opened(segment)
  try {
    if (compression === 'none') return readAt(fd, 0, FIRST_LINE_BYTES)
    const head = readAt(fd, 0, FIRST_BLOCK_BYTES)
    const { constants, gunzipSync, zstdDecompressSync } = zlib()
    // A cut end is no fault, and a long text is left to the stream.
    const finishFlush = compression === 'gzip' ? constants.Z_SYNC_FLUSH : constants.ZSTD_e_continue
    const options = { finishFlush, maxOutputLength: CHUNK_BYTES }
    return compression === 'gzip' ? gunzipSync(head, options) : zstdDecompressSync(head, options)
  } catch {
    return Buffer.of()
  } finally {
    closeSync(fd)
  }
}

/** Decompresses a short segment without a stream, if that can be done. */
function shortText(fd: number, compression: Segment['compression']): Buffer | undefined {
  const bytes = readAt(fd, 0, FIRST_BLOCK_BYTES)
  if (bytes.length === FIRST_BLOCK_BYTES) return undefined
  const { gunzipSync, zstdDecompressSync } = zlib()
  try {
    const options = { maxOutputLength: CHUNK_BYTES }
    if (compression === 'gzip') return unsuspected(gunzipSync(bytes, options), bytes.length)
    const { buffer, engine } = zstdDecompressSync(bytes, { ...options, info: true }) as unknown as {
      readonly buffer: Buffer
      readonly engine: { readonly bytesWritten: number }
    }
    return engine.bytesWritten === bytes.length ? unsuspected(buffer, bytes.length) : undefined
  } catch {
    return undefined
  }
}

function unsuspected(text: Buffer, compressedBytes: number): Buffer | undefined {
  return text.length > compressedBytes * SUSPECT_RATIO ? undefined : text
}

/** @throws Error as `blocksOf` */
export async function* chunksOf(segment: Source, fromByte = 0): AsyncGenerator<Buffer> {
  try {
    const { fd, compression } = openSegment(segment)
    if (compression === 'none') {
      yield* plainChunks(fd, fromByte)
      return
    }
    let left = fromByte
    for await (const chunk of decompressed(fd, segment.path, compression)) {
      if (left < chunk.length) yield chunk.subarray(left)
      left = Math.max(0, left - chunk.length)
    }
  } catch (error) {
    throw unreadable(segment.path, error as NodeJS.ErrnoException)
  }
}

function* plainChunks(fd: number, fromByte: number): Generator<Buffer> {
  try {
    const { size } = fstatSync(fd)
    for (let at = fromByte, count = -1; count !== 0; at += count) {
      const chunk = Buffer.allocUnsafeSlow(Math.max(FIRST_LINE_BYTES, Math.min(CHUNK_BYTES, size - at)))
      count = readSync(fd, chunk, 0, chunk.length, at)
      if (count > 0) yield chunk.subarray(0, count)
    }
  } finally {
    closeSync(fd)
  }
}

/** The segment may have been renamed or compressed since it was listed. */
function openSegment({ path, compression, inode }: Source): {
  fd: number
  compression: Segment['compression']
} {
  const own = openIfIs(path, inode)
  if (own !== undefined) return { fd: own, compression }
  if (compression === 'none') {
    const renamed = inode === undefined ? undefined : openRenamed(path, inode)
    if (renamed !== undefined) return { fd: renamed, compression }
    const compressed = openIfIs(`${path}.zst`, undefined)
    if (compressed !== undefined) return { fd: compressed, compression: 'zstd' }
  }
  closeSync(openRegularFile(path).fd)
  throw new Error('it is another file now: the trail was rotated while it was read')
}

function openRenamed(path: string, inode: string): number | undefined {
  for (const name of readdirSync(dirname(path))) {
    const other = join(dirname(path), name)
    const fd = regularStats(other)?.ino.toString() === inode ? openIfIs(other, inode) : undefined
    if (fd !== undefined) return fd
  }
  return undefined
}

function openIfIs(path: string, inode: string | undefined): number | undefined {
  try {
    const { fd, stats } = openRegularFile(path)
    if (inode === undefined || stats.ino.toString() === inode) return fd
    closeSync(fd)
    return undefined
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

async function* decompressed(
  fd: number,
  path: string,
  compression: Segment['compression'],
): AsyncGenerator<Buffer> {
  if (compression !== 'zstd' && compression !== 'gzip') {
    closeSync(fd)
    throw new Error(`it is compressed with ${compression}: decompress it to ${plainPath(path)} first`)
  }
  const short = shortText(fd, compression)
  if (short !== undefined) {
    closeSync(fd)
    yield short
    return
  }
  const { size } = fstatSync(fd)
  const source = createReadStream('', { fd, start: 0, highWaterMark: CHUNK_BYTES })
  const options = { chunkSize: Math.min(CHUNK_BYTES, MIN_CHUNK_BYTES + size * USUAL_RATIO) }
  const target = compression === 'zstd' ? zlib().createZstdDecompress(options) : zlib().createGunzip(options)
  // `pipe` does not forward errors.
  source.on('error', (error) => target.destroy(error))
  let bytes = 0
  let lines = 0
  try {
    for await (const chunk of source.pipe(target) as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes > RATIO_FROM_BYTES && bytes > source.bytesRead * MAX_RATIO) {
        throw new Error(`it grows to more than ${MAX_RATIO} times its size: this is no audit trail`)
      }
      if (bytes > source.bytesRead * SUSPECT_RATIO) lines += countNewlines(chunk)
      if (lines > source.bytesRead) throw new Error('it has more lines than bytes: this is no audit trail')
      yield chunk
    }
    // Node silently stops at bytes that begin no frame. Lines may be hidden behind them.
    const isWhole = compression !== 'zstd' || target.bytesWritten === source.bytesRead
    if (!isWhole) throw new Error(`from byte ${target.bytesWritten} on it is not compressed with zstd`)
  } finally {
    source.destroy()
  }
}

function countNewlines(bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(NEWLINE); at !== -1; at = bytes.indexOf(NEWLINE, at + 1)) count++
  return count
}

function unreadable(path: string, cause: NodeJS.ErrnoException | string): Error {
  const { code, message } = typeof cause === 'string' ? { code: undefined, message: cause } : cause
  const reason = code === 'Z_BUF_ERROR' ? 'the compressed file ends too early: it was torn or cut' : message
  return new Error(`audit file ${path} cannot be read: ${reason}`, { cause })
}
