import type { HashText } from '../../audit/seals/hashes.ts'
import { type Finding, plural } from './finding.ts'
import type { ReadLines } from './read-lines.ts'

/** How far lines that were moved, added or removed are followed. */
export const LOOK_AHEAD = 8192

/** Undefined: the leaf is not proven, or beyond the tree. */
type SealedLeaves = (index: number) => HashText | undefined

/**
 * Says what was done at the first difference. @param at a line that is not the leaf of its place
 * @param leaf its place in a tree of `size` leaves
 */
export function differenceAt(
  lines: ReadLines,
  sealed: SealedLeaves,
  { at, leaf, size }: { readonly at: number; readonly leaf: number; readonly size: number },
): Finding {
  const read = range((k) => lines.hash(at + k))
  const tree = range((k) => (leaf + k < size ? sealed(leaf + k) : undefined))
  const place = lines.place(at) ?? lines.place(at - 1)
  const [line] = read
  const missing = line === undefined ? -1 : tree.indexOf(line)
  const added = tree[0] === undefined ? -1 : read.indexOf(tree[0])
  const before = lines.fileBefore(at)
  const here = before === undefined ? 'before this line' : `before this line, or at the end of ${before}`
  if (line === undefined) {
    return {
      what: 'truncated',
      place,
      text: `the trail ends behind this line, and ${plural(size - leaf, 'sealed line')} more stood there`,
    }
  }
  if (missing > 0 && added > 0) {
    return { what: 'reordered', place, text: `this line stood ${plural(missing, 'line')} further on` }
  }
  if (missing > 0) return { what: 'removed', place, text: `${plural(missing, 'line')} stood ${here}` }
  if (added > 0) {
    return {
      what: 'added',
      place,
      lines: added,
      text: `${plural(added, 'line')} from here on were not there when it was sealed`,
    }
  }
  const same = tree.findIndex((hash, k) => hash !== undefined && hash === read[k])
  const count = same === -1 ? Math.min(read.length, size - leaf) : same
  const isMore = same === -1 && count > 1
  return {
    what: 'changed',
    place,
    text: isMore
      ? 'this line and those after it are not those that were sealed'
      : `${plural(count, 'line')} from here on ${count === 1 ? 'is not the one' : 'are not those'} that was sealed`,
  }
}

function range(hashAt: (k: number) => HashText | undefined): HashText[] {
  const hashes: HashText[] = []
  for (let k = 0; k < LOOK_AHEAD; k++) {
    const hash = hashAt(k)
    if (hash === undefined) break
    hashes.push(hash)
  }
  return hashes
}
