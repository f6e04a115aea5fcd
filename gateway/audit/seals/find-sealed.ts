import { closeSync, fstatSync, openSync } from 'node:fs'
import { endOfLastLine, linesBackward } from '../../storage/lines-backward.ts'
import { blocksOf } from '../segments/read-segment.ts'
import type { Segment } from '../segments/segment.ts'
import { type HashText, LEAF_PREFIX, sha256 } from './hashes.ts'
import { leafOf } from './leaf.ts'
import { LineHasher } from './line-hasher.ts'

/** Where a line of the tree stands in a segment. */
export interface FoundLeaf {
  /** Its index in the tree. */
  readonly leaf: number
  /** The position after it, bytes of the plain text. */
  readonly end: number
}

/**
 * The last line of a segment that is one of these leaves.
 *
 * @param places of the leaves in the tree, by their hash.
 * @throws Error of the system.
 */
export async function lastSealedLine(
  segment: Pick<Segment, 'path' | 'compression'>,
  places: ReadonlyMap<HashText, number>,
): Promise<FoundLeaf | undefined> {
  if (segment.compression === 'none') return searchBackward(segment.path, places)
  let found: FoundLeaf | undefined
  let end = 0
  const hasher = new LineHasher((hash, _bytes, _start, _end, lineBytes) => {
    end += lineBytes
    const leaf = places.get(hash)
    if (leaf !== undefined) found = { leaf, end }
  })
  for await (const block of blocksOf(segment)) hasher.push(block)
  return found
}

function searchBackward(path: string, places: ReadonlyMap<HashText, number>): FoundLeaf | undefined {
  const fd = openSync(path, 'r')
  try {
    let end = endOfLastLine(fd, fstatSync(fd).size)
    for (const line of linesBackward(fd, end)) {
      const leaf = places.get(hashOf(Buffer.from(`${line}\n`, 'latin1')))
      if (leaf !== undefined) return { leaf, end }
      end -= line.length + 1
    }
    return undefined
  } finally {
    closeSync(fd)
  }
}

function hashOf(line: Buffer): HashText {
  return sha256(Buffer.concat([Buffer.of(LEAF_PREFIX), leafOf(line)]))
}
