import { closeSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { openRegularFile, readAt, regularStats } from '../../storage/regular-file.ts'
import { RECORD_HEAD } from '../audit-records.ts'

const NOT_A_TRAIL = /\.(?:lock|tmp|shipped|clock|gz|bz2|xz|zst)$/
/** A record must begin within these first bytes of a file. */
const HEAD_BYTES = 128 * 1024

type Candidate = { readonly path: string; readonly mtimeNs: bigint; readonly isLocked: boolean }
type Candidates = ReadonlyMap<string, readonly Candidate[]>

/** Lists files of the directory by inode. Each audit file has a lock beside it, even if no gateway runs. */
export function candidatesIn(directory: string): Candidates {
  const names = new Set(readdirSync(directory))
  const files = [...names].flatMap((name) => {
    if (NOT_A_TRAIL.test(name)) return []
    const path = join(directory, name)
    const stats = regularStats(path)
    const isLocked = names.has(`${name}.lock`)
    return stats ? [{ path, mtimeNs: stats.mtimeNs, isLocked, inode: stats.ino.toString() }] : []
  })
  return Map.groupBy(files, ({ inode }) => inode)
}

/**
 * Finds the previous file of the trail: the one with the inode `continues`. If that is undefined (the gateway was
 * killed during a rotation), finds the newest file named like `file` with a suffix, but not one with a lock beside it.
 * @param visited files already read
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
    // Others may have renamed it since the listing.
    return found(candidates) ?? found(candidatesIn(dirname(file)))
  }
  let newest: Candidate | undefined
  for (const one of [...candidates.values()].flat()) {
    const isLater = newest === undefined || one.mtimeNs > newest.mtimeNs
    const name = basename(one.path)
    const isSuffixed = name.startsWith(`${basename(file)}.`) || name.startsWith(`${basename(file)}-`)
    if (isLater && isNew(one) && isSuffixed && !one.isLocked) newest = one
  }
  return newest?.path
}

/** The inode may by now belong to another file. */
function isTrail(path: string, inode: string): boolean {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return false
  const { fd, stats } = openRegularFile(path)
  try {
    const head = readAt(fd, 0, HEAD_BYTES)
    return stats.ino.toString() === inode && (head.length === 0 || head.includes(RECORD_HEAD))
  } finally {
    closeSync(fd)
  }
}
