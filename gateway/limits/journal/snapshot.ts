import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { batches, type Hit, type Ignored, readHits } from './journal-records.ts'

/** Writes all hits, or leaves the file that was there: the new one takes its place only when it is on the disk. */
export function writeSnapshot(directory: string, hits: Iterable<Hit>): void {
  const draft = join(directory, 'snapshot.tmp')
  rmSync(draft, { force: true })
  const fd = openSync(draft, 'wx', 0o600)
  try {
    for (const lines of batches(hits)) writeFileSync(fd, lines)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(draft, fileIn(directory))
  syncDirectory(directory)
}

/** Gives every hit of the snapshot, if there is one, to `visit`; see readHits. */
export function readSnapshot(directory: string, visit: (hit: Hit) => boolean): Ignored | undefined {
  const file = fileIn(directory)
  return existsSync(file) ? readHits(file, visit) : undefined
}

/** Removes the snapshot, if there is one. */
export function removeSnapshot(directory: string): void {
  rmSync(fileIn(directory), { force: true })
}

function fileIn(directory: string): string {
  return join(directory, 'snapshot.ndjson')
}

/** The new name is an entry of the directory, which has to reach the disk as well. */
function syncDirectory(directory: string): void {
  const fd = openSync(directory, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
