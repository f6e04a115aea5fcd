import { createHash } from 'node:crypto'
import {
  createReadStream,
  createWriteStream,
  existsSync,
  fsyncSync,
  renameSync,
  statSync,
  utimesSync,
} from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress } from 'node:zlib'
import { syncDirectoryOf, unusable } from '../../storage/append-file.ts'
import { discard, OWNER_ONLY, removeFile, withFile } from '../../storage/line-file.ts'
import { blocksOf } from './read-segment.ts'

/** About 150 MB a second on one core. Higher levels gain little. */
const LEVEL = 6

/**
 * Replaces a closed segment by its compressed copy `<path>.zst`, once that is on the disk and compared. A killed call
 * can be repeated. A copy that another program made is never removed.
 * @throws Error that names the file; the segment or a copy of the segment is then still there
 */
export async function compressSegment(path: string): Promise<void> {
  const copy = `${path}.zst`
  const isFound = existsSync(copy)
  let isWritten = false
  try {
    const sha256 = isFound ? await hashOf(createReadStream(path)) : await writeCopy(path, copy)
    isWritten = !isFound
    if ((await hashOf(blocksOf({ path: copy, compression: 'zstd' }))) !== sha256) {
      throw new Error('the compressed copy has other bytes')
    }
    // A copy that another program made may not be synced yet.
    if (isFound) {
      withFile(copy, 'r', fsyncSync)
      syncDirectoryOf(copy)
    }
  } catch (error) {
    if (isWritten && existsSync(path)) discard(copy)
    const { message } = error as Error
    throw unusable(path, isFound ? new Error(`${copy} is there already, and ${message}`) : error)
  }
  removeFile(path)
  syncDirectoryOf(path)
}

async function writeCopy(path: string, copy: string): Promise<string> {
  const draft = `${copy}.tmp`
  const { size, atime, mtime } = statSync(path)
  const sha256 = createHash('sha256')
  const compress = createZstdCompress({
    params: { [constants.ZSTD_c_compressionLevel]: LEVEL, [constants.ZSTD_c_checksumFlag]: 1 },
    pledgedSrcSize: size,
  })
  try {
    const read = async function* (source: AsyncIterable<Buffer>) {
      for await (const chunk of source) {
        sha256.update(chunk)
        yield chunk
      }
    }
    removeFile(draft)
    await pipeline(
      createReadStream(path),
      read,
      compress,
      createWriteStream(draft, { flags: 'wx', mode: OWNER_ONLY, flush: true }),
    )
    utimesSync(draft, atime, mtime)
    renameSync(draft, copy)
  } catch (error) {
    discard(draft)
    throw error
  }
  syncDirectoryOf(copy)
  return sha256.digest('hex')
}

async function hashOf(chunks: AsyncIterable<Buffer>): Promise<string> {
  const sha256 = createHash('sha256')
  for await (const chunk of chunks) sha256.update(chunk)
  return sha256.digest('hex')
}
