import type { Checkpoint } from '../../audit/seals/checkpoint.ts'
import { type EdgeTile, EdgeTiles } from '../../audit/seals/edge-tiles.ts'
import { HASH_BYTES, type HashText } from '../../audit/seals/hashes.ts'
import { completeSubtrees } from '../../audit/seals/proofs.ts'
import { TILE_WIDTH, tilePath, tileWidth } from '../../audit/seals/tiles.ts'
import { TreeEdge } from '../../audit/seals/tree-edge.ts'
import { plural } from '../../terminal/printable.ts'
import type { Finding } from './finding.ts'
import type { ProvenTiles } from './proven-tiles.ts'
import type { ReadLines } from './read-lines.ts'

/** Lines among which moved, added or removed ones are recognised. */
const LOOK_AHEAD = 8192
const MAX_ADDITIONS = 100

/** Compares lines with a sealed tree. The root of the lines proves them; tiles show differences. */
export class LineComparison {
  readonly findings: Finding[] = []
  readonly #lines: ReadLines
  readonly #tiles: ProvenTiles
  readonly #checkpoint: Checkpoint
  readonly #begin: number
  /** `first` is the leaf that line 0 would have, for leaves from `from` on. Added lines make it smaller. */
  readonly #firsts: { readonly from: number; readonly first: number }[]
  #edge: TreeEdge
  #made: EdgeTiles
  /** The state at the beginning of the last tile of leaves. */
  #saved: { readonly edge: TreeEdge; readonly made: EdgeTiles }
  /** Unproven tiles that differ from the lines: either may have been changed. */
  readonly #doubtful: { readonly path: string; readonly isMissing: boolean; readonly line: number }[] = []
  /** True when the lines end early and are proven. */
  isPart = false
  #broken: number | undefined
  /** Number of lines from `#broken` on that may differ; at least one does. Above 1 if their tiles were changed too. */
  #brokenLines = 1

  /** @throws TileFault when the tiles before the first line are not there. */
  constructor(lines: ReadLines, tiles: ProvenTiles, checkpoint: Checkpoint, first: number) {
    this.#lines = lines
    this.#tiles = tiles
    this.#checkpoint = checkpoint
    this.#begin = first
    this.#firsts = [{ from: first, first }]
    lines.keepTo(checkpoint.size - first + LOOK_AHEAD)
    this.#made = new EdgeTiles(first, (tile) => this.#compare(tile))
    this.#edge = TreeEdge.from(first, completeSubtrees(tiles.reader, first), this.#made.add)
    this.#saved = this.#copy({ edge: this.#edge, made: this.#made })
  }

  #copy({ edge, made }: { readonly edge: TreeEdge; readonly made: EdgeTiles }) {
    const copy = made.copy()
    return { edge: edge.copy(copy.add), made: copy }
  }

  #lineOf(leaf: number): number {
    const { first } = this.#firsts.findLast(({ from }) => from <= leaf) ?? { first: this.#begin }
    return leaf - first
  }

  get addedLines(): number {
    return this.#begin - (this.#firsts.at(-1)?.first ?? this.#begin)
  }

  get isBroken(): boolean {
    return this.#broken !== undefined
  }

  /** True once enough lines were read to say what the difference is. */
  get isDecided(): boolean {
    return this.#broken !== undefined && this.#isAhead(this.#broken)
  }

  #isAhead(leaf: number): boolean {
    return this.#lines.count - this.#lineOf(leaf) >= LOOK_AHEAD
  }

  get provenLines(): number {
    return Math.max(0, (this.#broken ?? this.#edge.size) - this.#begin)
  }

  compareTo(size: number): void {
    this.#append(size)
    while (this.#broken !== undefined && this.#isAhead(this.#broken) && this.#skipAdded()) this.#append(size)
    this.#lines.forget(this.#lineOf(this.#edge.size))
  }

  #append(size: number): void {
    const first = this.#firsts.at(-1)?.first ?? this.#begin
    const end = Math.min(size, this.#checkpoint.size, first + this.#lines.count)
    while (this.#edge.size < end && this.#broken === undefined) {
      if (this.#edge.size % TILE_WIDTH === 0) this.#saved = this.#copy({ edge: this.#edge, made: this.#made })
      this.#edge.append(this.#lines.hash(this.#lineOf(this.#edge.size)) as HashText)
    }
  }

  /** Names added lines and goes on behind them. @returns false for another kind of difference */
  #skipAdded(): boolean {
    const leaf = this.#broken
    if (leaf === undefined || this.findings.length >= MAX_ADDITIONS) return false
    const finding = this.#difference(leaf)
    if (finding.addedLines === undefined) return false
    this.findings.push(finding)
    this.#firsts.push({ from: leaf, first: leaf - this.#lineOf(leaf) - finding.addedLines })
    this.#lines.keepTo(this.#checkpoint.size - this.#begin + this.addedLines + LOOK_AHEAD)
    const { edge, made } = this.#copy(this.#saved)
    this.#edge = edge
    this.#made = made
    this.#broken = undefined
    return true
  }

  /** @param size that `compareTo` has just reached, or an earlier one */
  rootAt(size: number): Buffer | undefined {
    return size === this.#edge.size ? this.#edge.root() : this.#tiles.rootAt(size)
  }

  /** Call it when all lines were read. @param mayEndEarly later sealed lines may not have been given */
  end(mayEndEarly: boolean): void {
    do {
      this.#append(this.#checkpoint.size)
      if (this.#broken === undefined) this.#compareEnd(mayEndEarly)
    } while (this.#skipAdded())
    if (this.#broken === undefined) this.#judgeDoubtful()
    else this.findings.push(this.#difference(this.#broken))
  }

  #compare({ level, index, bytes, from, width }: EdgeTile): void {
    if (this.#broken !== undefined) return
    const tile = this.#tiles.tile(level, index)
    const start = from * HASH_BYTES
    const end = width * HASH_BYTES
    if (tile?.subarray(start, end).equals(bytes.subarray(start, end)) === true) return
    let at = start
    while (tile?.compare(bytes, at, at + HASH_BYTES, at, at + HASH_BYTES) === 0) at += HASH_BYTES
    const leaf = (index * TILE_WIDTH + at / HASH_BYTES) * TILE_WIDTH ** level
    const line = Math.max(0, this.#lineOf(leaf))
    if (tile !== undefined && this.#tiles.isProven(level, index)) {
      this.#broken = Math.max(leaf, this.#begin)
      this.#brokenLines = TILE_WIDTH ** level
      return
    }
    const path = tilePath(level, index, tileWidth(this.#checkpoint.size, level, index))
    this.#doubtful.push({ path, isMissing: tile === undefined, line })
  }

  #compareEnd(mayEndEarly: boolean): void {
    const { size, root } = this.#checkpoint
    const isWhole = this.#edge.size === size
    for (const tile of this.#made.partial()) {
      if (isWhole ? tileWidth(size, tile.level, tile.index) === tile.width : tile.level === 0)
        this.#compare(tile)
    }
    if (this.#broken !== undefined) return
    if (!isWhole && mayEndEarly && this.#isProvenByTiles()) this.isPart = true
    else if (!isWhole) this.#broken = this.#edge.size
    else if (!this.#edge.root().equals(root) && this.#doubtful.length === 0) {
      this.findings.push({
        what: 'changed',
        text: 'lines and tiles agree with one another, but not with the signed root: they were rewritten together',
      })
    }
  }

  #isProvenByTiles(): boolean {
    if (this.#doubtful.length > 0 || this.#edge.size === this.#begin) return false
    const last = Math.floor((this.#edge.size - 1) / TILE_WIDTH)
    for (let index = Math.floor(this.#begin / TILE_WIDTH); index <= last; index++) {
      if (!this.#tiles.isProven(0, index)) return false
    }
    return true
  }

  #judgeDoubtful(): void {
    const { size, root } = this.#checkpoint
    const areLinesProven = this.#edge.size === size && this.#edge.root().equals(root)
    for (const { path, isMissing, line } of this.#doubtful) {
      const text = isMissing ? `${path} is missing or was cut` : `${path} was changed`
      if (areLinesProven)
        this.findings.push({ what: 'tile', text: `${text}; the lines are as they were sealed` })
      else {
        const place = this.#lines.place(line)
        this.findings.push({ what: 'changed', place, text: `${text}, or lines from here on were, or both` })
      }
    }
  }

  /** @param leaf the first that differs */
  #difference(leaf: number): Finding {
    const at = this.#lineOf(leaf)
    const { size } = this.#checkpoint
    const ownPlace = this.#lines.place(at)
    if (this.#brokenLines > 1) {
      const text = `one or more of the ${plural(this.#brokenLines, 'line')} from here on were changed, and the tiles with them`
      return { what: 'changed', place: ownPlace, text }
    }
    const read = range((k) => this.#lines.hash(at + k))
    // Undefined: the leaf is not proven.
    const sealed = (k: number) => this.#tiles.leaf(leaf + k)?.toString('latin1')
    const tree = range((k) => (leaf + k < size ? sealed(k) : undefined))
    const place = ownPlace ?? this.#lines.place(at - 1)
    const [line] = read
    if (line === undefined) {
      const text = `the trail ends here, and ${plural(size - leaf, 'sealed line after this one is', 'sealed lines after this one are')} missing`
      return { what: 'truncated', place, text }
    }
    const missing = tree.indexOf(line)
    const added = tree[0] === undefined ? -1 : read.indexOf(tree[0])
    if (missing > 0 && added > 0)
      return { what: 'reordered', place, text: `this line stood ${plural(missing, 'line')} further on` }
    if (missing > 0) {
      const before = this.#lines.fileBefore(at)
      const here = before === undefined ? 'before this line' : `before this line, or at the end of ${before}`
      return { what: 'removed', place, text: `${plural(missing, 'line')} stood ${here}` }
    }
    if (added > 0) {
      const text = `${plural(added, 'line from here on was', 'lines from here on were')} not there when the trail was sealed`
      return { what: 'added', place, addedLines: added, text }
    }
    const same = tree.findIndex((hash, k) => hash === read[k])
    const count = same === -1 ? Math.min(read.length, size - leaf) : same
    const isMore = same === -1 && count > 1
    const text = isMore
      ? 'this line and those after it are not those that were sealed'
      : `${plural(count, 'line from here on is not the one that was', 'lines from here on are not those that were')} sealed`
    return { what: 'changed', place, text }
  }
}

function range(hashAt: (k: number) => string | undefined): string[] {
  const hashes: string[] = []
  for (let k = 0; k < LOOK_AHEAD; k++) {
    const hash = hashAt(k)
    if (hash === undefined) break
    hashes.push(hash)
  }
  return hashes
}
