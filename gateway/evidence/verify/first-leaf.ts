import { HASH_BYTES, type HashText } from '../../audit/seals/hashes.ts'
import { TILE_WIDTH } from '../../audit/seals/tiles.ts'
import type { ProvenTiles } from './proven-tiles.ts'

/** The leaves of the first lines stand within so many of one another. */
const SPREAD_LEAVES = 8192

/**
 * The place in the tree of the first line that is to be compared: what was pruned, or was not asked for, is missing before it.
 *
 * @param hashes of the first lines, one of which may be changed or out of its place. @param size of the tree.
 * @returns undefined when none of these lines is in the tiles that are there.
 */
export function firstLeafOf(
  hashes: readonly HashText[],
  tiles: ProvenTiles,
  size: number,
): number | undefined {
  const leaves = leavesOf(hashes, tiles, size)
  const [first, second] = [leaves.get(0), leaves.get(1)]
  if (first !== undefined && !(second !== undefined && second < first)) return first
  const votes = new Map<number, number>()
  for (const [line, leaf] of leaves) {
    if (leaf >= line) votes.set(leaf - line, (votes.get(leaf - line) ?? 0) + 1)
  }
  const candidates = [...votes.keys()].toSorted((a, b) => a - b)
  return candidates.find((leaf) => Number(votes.get(leaf)) > 1) ?? candidates[0]
}

/** By line. */
function leavesOf(hashes: readonly HashText[], tiles: ProvenTiles, size: number): Map<number, number> {
  const lines = new Map(hashes.map((hash, line) => [hash, line] as const).reverse())
  const leaves = new Map<number, number>()
  let end = size
  for (let index = 0; index * TILE_WIDTH < end; index++) {
    const tile = tiles.tile(0, index)?.toString('latin1') ?? ''
    for (let at = 0; at < tile.length; at += HASH_BYTES) {
      const line = lines.get(tile.slice(at, at + HASH_BYTES))
      if (line === undefined || leaves.has(line)) continue
      leaves.set(line, index * TILE_WIDTH + at / HASH_BYTES)
      if (leaves.size === 1) end = Math.min(size, (index + 1) * TILE_WIDTH + SPREAD_LEAVES)
    }
  }
  return leaves
}
