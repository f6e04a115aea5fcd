import { existsSync, readdirSync, rmdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { readRegularFile } from '../../storage/regular-file.ts'
import { parseCheckpoint } from '../seals/checkpoint.ts'
import { firstUnsynced } from '../seals/late-tiles.ts'
import { parseNote } from '../seals/signed-note.ts'
import { TILE_WIDTH, tilePath } from '../seals/tiles.ts'
import { WITNESSED_FILE } from '../witness/witnessed-checkpoint.ts'

/** Directories of tiles hold so many. */
const IN_A_DIRECTORY = 1000

/**
 * Removes the tiles that nobody needs for the leaves from `firstLeaf` on: full ones that end before it (C2SP tlog-tiles,
 * "Pruning"). Proofs and roots for later leaves and trees can still be made, and witnesses still be told how the log has grown,
 * but for one whose last checkpoint is older than the quorum's and than `firstLeaf`. What must wait goes in a later round.
 *
 * @returns how many tiles were removed. @throws Error of the system
 */
export function pruneTiles(directory: string, firstLeaf: number): number {
  const unsynced = firstUnsynced(directory)
  // A start after a crash looks for all of them from there on.
  const synced = unsynced === undefined ? Number.POSITIVE_INFINITY : unsynced * TILE_WIDTH
  const bound = Math.min(firstLeaf, witnessedSize(directory), synced)
  let removed = 0
  for (const level of ['entries', ...levelsIn(directory)] as const) {
    const leavesInTile = TILE_WIDTH ** (level === 'entries' ? 1 : level + 1)
    const end = Math.floor(bound / leavesInTile)
    for (let index = firstTile(directory, level, end); index < end; index++) {
      const path = join(directory, tilePath(level, index))
      rmSync(path, { force: true })
      rmSync(`${path}.p`, { recursive: true, force: true })
      removed++
      if ((index + 1) % IN_A_DIRECTORY === 0) removeEmpty(dirname(path))
    }
  }
  return removed
}

/** Tiles go in order, so that those that are left follow one another, whenever the process ends. */
function firstTile(directory: string, level: number | 'entries', end: number): number {
  let [low, high] = [0, end]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (existsSync(join(directory, tilePath(level, middle)))) high = middle
    else low = middle + 1
  }
  return low
}

function levelsIn(directory: string): number[] {
  return readdirSync(join(directory, 'tile'))
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

/** Without witnesses there is no bound, unless there were some: their last checkpoint is kept. */
function witnessedSize(directory: string): number {
  const file = join(directory, WITNESSED_FILE)
  return existsSync(file)
    ? parseCheckpoint(parseNote(readRegularFile(file)).text).size
    : Number.POSITIVE_INFINITY
}

function removeEmpty(directory: string): void {
  try {
    rmdirSync(directory)
  } catch {
    // A partial tile may be left.
  }
}
