import { type BigIntStats, closeSync, openSync, readdirSync, readSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'

const NOT_A_TRAIL = /\.(?:lock|tmp|shipped|clock|gz|bz2|xz|zst)$/
const RECORD_HEAD = '{"type":"'
/** Where a trail has the beginning of a record: a line is never longer. */
const HEAD_BYTES = 128 * 1024

/**
 * The file before `file` in the same directory: the one with the inode `continues`. Without an inode the process was killed
 * during a rotation: then the newest file with the same name and a suffix (`audit.ndjson.1`, `audit.ndjson-20260101`).
 *
 * @param continues from the AUDIT_START of `file`.
 * @param visited files that have been read already.
 */
export function rotatedFile(
  file: string,
  continues: string | undefined,
  visited: ReadonlySet<string>,
): string | undefined {
  const directory = dirname(file)
  let newest: { path: string; mtimeNs: bigint } | undefined
  for (const name of readdirSync(directory)) {
    const path = join(directory, name)
    const stats = visited.has(path) || NOT_A_TRAIL.test(name) ? undefined : regular(path)
    if (stats === undefined) continue
    if (continues !== undefined) {
      // A file that was compressed or removed may have left its inode to a stranger.
      if (stats.ino.toString() === continues && isTrail(path)) return path
    } else if (isSuffixed(name, basename(file)) && (newest === undefined || stats.mtimeNs > newest.mtimeNs)) {
      newest = { path, mtimeNs: stats.mtimeNs }
    }
  }
  return newest?.path
}

/** Its first lines may be damaged. */
function isTrail(path: string): boolean {
  const head = Buffer.alloc(HEAD_BYTES)
  const fd = openSync(path, 'r')
  try {
    const bytes = readSync(fd, head)
    return bytes === 0 || head.includes(RECORD_HEAD)
  } finally {
    closeSync(fd)
  }
}

function isSuffixed(name: string, base: string): boolean {
  return name.startsWith(`${base}.`) || name.startsWith(`${base}-`)
}

function regular(path: string): BigIntStats | undefined {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false })
  return stats?.isFile() ? stats : undefined
}
