import { closeSync, readdirSync, readSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { openRegularFile } from '../../storage/regular-file.ts'
import { RECORD_HEAD } from '../audit-records.ts'

const NOT_A_TRAIL = /\.(?:lock|tmp|shipped|clock|gz|bz2|xz|zst)$/
/** Where a trail has the beginning of a record: a line is never longer. */
const HEAD_BYTES = 128 * 1024

interface Candidate {
  readonly path: string
  readonly mtimeNs: bigint
}

/** Files by their inode. */
type Candidates = ReadonlyMap<string, readonly Candidate[]>

/** The files of a directory that may be parts of a trail and are not compressed. */
export function candidatesIn(directory: string): Candidates {
  const names = readdirSync(directory).filter((name) => !NOT_A_TRAIL.test(name))
  const files = names.flatMap((name) => {
    const path = join(directory, name)
    const stats = statSync(path, { bigint: true, throwIfNoEntry: false })
    return stats?.isFile() ? [{ path, mtimeNs: stats.mtimeNs, inode: stats.ino.toString() }] : []
  })
  return Map.groupBy(files, ({ inode }) => inode)
}

/**
 * The file before `file`: the candidate with the inode `continues`. Without an inode the process was killed during a rotation:
 * then the newest file with the same name and a suffix (`audit.ndjson.1`, `audit.ndjson-20260101`).
 *
 * @param continues from the AUDIT_START of `file`.
 * @param visited files that have been read already.
 * @param candidates of the directory of `file`: one look at it is enough for all steps back.
 */
export function rotatedFile(
  file: string,
  continues: string | undefined,
  visited: ReadonlySet<string>,
  candidates: Candidates,
): string | undefined {
  const isNew = ({ path }: Candidate) => !visited.has(path)
  if (continues !== undefined) {
    const found = (all: Candidates) =>
      all.get(continues)?.find((one) => isNew(one) && isTrail(one.path, continues))?.path
    // Others may have renamed it since the directory was listed.
    return found(candidates) ?? found(candidatesIn(dirname(file)))
  }
  let newest: Candidate | undefined
  for (const one of [...candidates.values()].flat()) {
    const isLater = newest === undefined || one.mtimeNs > newest.mtimeNs
    if (isLater && isNew(one) && isSuffixed(basename(one.path), basename(file))) newest = one
  }
  return newest?.path
}

/** Its first lines may be damaged. A file that was compressed or removed may have left its inode to a stranger. */
function isTrail(path: string, inode: string): boolean {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return false
  const head = Buffer.alloc(HEAD_BYTES)
  const { fd, stats } = openRegularFile(path)
  try {
    const bytes = readSync(fd, head)
    return stats.ino.toString() === inode && (bytes === 0 || head.includes(RECORD_HEAD))
  } finally {
    closeSync(fd)
  }
}

function isSuffixed(name: string, base: string): boolean {
  return name.startsWith(`${base}.`) || name.startsWith(`${base}-`)
}
