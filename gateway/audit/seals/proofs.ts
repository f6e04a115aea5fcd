import { nodeHash } from './hashes.ts'
import { subtreeHeights } from './tree-edge.ts'

export interface Subtrees {
  /** MTH(D[index·2^height : (index+1)·2^height]). @throws Error when it is not there. */
  subtree(height: number, index: number): Buffer
}

/** MTH(D[start:end]) of RFC 6962 section 2.1, for ranges that a tree is split into. */
export function rangeHash(tree: Subtrees, start: number, end: number): Buffer {
  if (!(end > start)) throw new RangeError(`there is no tree over leaves ${start} to ${end}`)
  const split = splitOf(end - start)
  if (split * 2 === end - start || end - start === 1) {
    return tree.subtree(Math.log2(end - start), start / (end - start))
  }
  return nodeHash(rangeHash(tree, start, start + split), rangeHash(tree, start + split, end))
}

/** Roots of the complete subtrees of D[0:size], the largest first. */
export function completeSubtrees(tree: Subtrees, size: number): Buffer[] {
  let start = 0
  return subtreeHeights(size).map((height) => {
    const hash = tree.subtree(height, start / 2 ** height)
    start += 2 ** height
    return hash
  })
}

/** PATH(index, D[0:size]) of RFC 6962 section 2.1.1. */
export function inclusionProof(tree: Subtrees, index: number, size: number): Buffer[] {
  if (!(index >= 0 && index < size)) throw new RangeError(`leaf ${index} is not in a tree of ${size}`)
  return siblings(tree, index, size, (start, end) => end - start === 1).hashes
}

/** PROOF(oldSize, D[0:size]) of RFC 6962 section 2.1.2. */
export function consistencyProof(tree: Subtrees, oldSize: number, size: number): Buffer[] {
  if (!(oldSize > 0 && oldSize <= size))
    throw new RangeError(`a tree of ${size} has no proof from ${oldSize}`)
  const { hashes, start } = siblings(tree, oldSize - 1, size, (_, end) => end === oldSize)
  // The verifier has the old root itself.
  return start === 0 ? hashes : [rangeHash(tree, start, oldSize), ...hashes]
}

/** Walks from the root towards a leaf, until `isEnd`. @returns hashes of the siblings, the lowest first */
function siblings(
  tree: Subtrees,
  leaf: number,
  size: number,
  isEnd: (start: number, end: number) => boolean,
): { readonly hashes: Buffer[]; readonly start: number } {
  const hashes: Buffer[] = []
  let [start, end] = [0, size]
  while (!isEnd(start, end)) {
    const middle = start + splitOf(end - start)
    if (leaf < middle) {
      hashes.push(rangeHash(tree, middle, end))
      end = middle
    } else {
      hashes.push(rangeHash(tree, start, middle))
      start = middle
    }
  }
  return { hashes: hashes.reverse(), start }
}

/** Verifies a proof of inclusion (RFC 9162 section 2.1.3.2). */
export function verifyInclusion(facts: {
  readonly index: number
  readonly size: number
  readonly leafHash: Uint8Array
  readonly proof: readonly Uint8Array[]
  readonly root: Uint8Array
}): boolean {
  const { index, size, leafHash, proof, root } = facts
  if (!(Number.isSafeInteger(size) && Number.isSafeInteger(index) && index >= 0 && index < size)) return false
  let node = index
  let last = size - 1
  let hash: Uint8Array = leafHash
  for (const sibling of proof) {
    if (last === 0) return false
    if (node % 2 === 1 || node === last) {
      hash = nodeHash(sibling, hash)
      while (node % 2 === 0 && node !== 0) {
        node /= 2
        last = Math.floor(last / 2)
      }
    } else {
      hash = nodeHash(hash, sibling)
    }
    node = Math.floor(node / 2)
    last = Math.floor(last / 2)
  }
  return last === 0 && Buffer.compare(hash, root) === 0
}

function splitOf(size: number): number {
  let split = 1
  while (split * 2 < size) split *= 2
  return split
}
