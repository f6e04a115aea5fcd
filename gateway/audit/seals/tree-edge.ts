import { EMPTY_ROOT, HASH_BYTES, type HashText, hashBytes, NODE_PREFIX, sha256 } from './hashes.ts'

export const TILE_HEIGHT = 8
/** Depth of a tree of 2^53 leaves, and one more hash while two are joined. */
const MAX_HASHES = 55

/** Called for each hash that tiles hold. `level` is the level of the tile. */
type OnTileHash = (level: number, hash: HashText) => void

/** The right edge of a growing tree: the roots of its complete subtrees, the largest first. */
export class TreeEdge {
  readonly #onTileHash: OnTileHash | undefined
  /** One byte for the prefix, then the hashes. */
  readonly #stack = Buffer.alloc(1 + MAX_HASHES * HASH_BYTES)
  /** Views of `#stack`, one for each place: a byte for the prefix and two hashes. */
  readonly #nodes: Buffer[] = []
  readonly #heights: number[] = []
  size = 0

  constructor(onTileHash?: OnTileHash) {
    this.#onTileHash = onTileHash
  }

  static from(size: number, hashes: readonly Uint8Array[], onTileHash?: OnTileHash): TreeEdge {
    const edge = new TreeEdge(onTileHash)
    edge.#heights.push(...subtreeHeights(size))
    if (edge.#heights.length !== hashes.length) throw new RangeError('the hashes do not fit the size')
    for (const [i, bytes] of hashes.entries()) edge.#stack.set(bytes, 1 + i * HASH_BYTES)
    edge.size = size
    return edge
  }

  append(leafHash: HashText): void {
    const stack = this.#stack
    const heights = this.#heights
    let place = heights.length
    let height = 0
    stack.write(leafHash, 1 + place * HASH_BYTES, 'latin1')
    this.#onTileHash?.(0, leafHash)
    while (heights.at(-1) === height) {
      heights.pop()
      height++
      place--
      const node = this.#nodes[place] ?? nodeAt(stack, place)
      this.#nodes[place] = node
      const joined = joinIn(node)
      if (height % TILE_HEIGHT === 0) this.#onTileHash?.(height / TILE_HEIGHT, joined)
    }
    heights.push(height)
    this.size++
  }

  root(): Buffer {
    if (this.size === 0) return EMPTY_ROOT
    const used = 1 + this.#heights.length * HASH_BYTES
    const scratch = Buffer.from(this.#stack.subarray(0, used))
    for (let place = this.#heights.length - 2; place >= 0; place--) joinIn(nodeAt(scratch, place))
    return scratch.subarray(1, 1 + HASH_BYTES)
  }

  copy(onTileHash?: OnTileHash): TreeEdge {
    const hashes = this.#heights.map((_, i) =>
      this.#stack.subarray(1 + i * HASH_BYTES, 1 + (i + 1) * HASH_BYTES),
    )
    return TreeEdge.from(this.size, hashes, onTileHash)
  }
}

/** Heights of complete subtrees, the largest first. */
export function subtreeHeights(size: number): number[] {
  const heights: number[] = []
  for (let height = 0, rest = size; rest > 0; height++, rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) heights.unshift(height)
  }
  return heights
}

function nodeAt(stack: Buffer, place: number): Buffer {
  return stack.subarray(place * HASH_BYTES, 1 + (place + 2) * HASH_BYTES)
}

/** Replaces the first of two hashes by the hash of their node. */
function joinIn(node: Buffer): HashText {
  const before = node[0] as number
  node[0] = NODE_PREFIX
  const joined = sha256(node)
  node[0] = before
  node.write(joined, 1, 'latin1')
  return joined
}

export function rootOf(leafHashes: Iterable<Uint8Array>): Buffer {
  const edge = new TreeEdge()
  for (const bytes of leafHashes) edge.append(Buffer.from(bytes).toString('latin1'))
  return hashBytes(edge.root().toString('latin1'))
}
