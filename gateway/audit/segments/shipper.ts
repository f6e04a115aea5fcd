import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import { realPathOf } from '../../storage/append-file.ts'
import { replaceFile } from '../../storage/line-file.ts'
import { readRegularFile } from '../../storage/regular-file.ts'
import { parseCheckpoint } from '../seals/checkpoint.ts'
import { parseNote } from '../seals/signed-note.ts'
import {
  checkpointFile,
  hashesOnLevel,
  logDirectory,
  partialTiles,
  TILE_WIDTH,
  TileReader,
  tilePath,
} from '../seals/tiles.ts'
import { SealedTree } from './sealed-tree.ts'
import { plainPath } from './segment.ts'
import { type Digest, digestOf, type ShipTarget } from './ship-target.ts'
import type { ClosedSegment } from './trail-segments.ts'

/** A segment takes some hundred bytes, a large one more. */
const MAX_STATE_BYTES = 256 * 1024 * 1024
const KEEP_MS = 1000

/** JSON kept beside the trail. */
interface Shipped {
  readonly to: string
  readonly segments: Record<string, Digest>
  /** Leaves of the checkpoint that was copied last. */
  tree: number
  root?: string
}

/** Copies closed segments and the log to a target, and remembers what is there for certain. */
export class Shipper {
  readonly #auditFile: string
  readonly #target: ShipTarget
  readonly #state: Shipped
  #keptMs = Number.NEGATIVE_INFINITY

  constructor(auditFile: string, target: ShipTarget) {
    this.#auditFile = auditFile
    this.#target = target
    this.#state = readShipped(fileOf(auditFile), target.name) ?? { to: target.name, segments: {}, tree: 0 }
  }

  isShipped({ path }: ClosedSegment): boolean {
    return this.#copyOf(path) !== undefined
  }

  /** The segment may have been compressed after it was copied. */
  #copyOf(path: string): string | undefined {
    const plain = plainPath(basename(path))
    return [basename(path), plain, `${plain}.zst`].find((name) => name in this.#state.segments)
  }

  async ship({ path }: ClosedSegment): Promise<void> {
    const name = basename(path)
    const digest = await digestOf({ path }, this.#target.cut)
    await this.#target.put(name, { path }, digest, false)
    this.#state.segments[name] = digest
    // `keep` writes the whole state, so it runs rarely. After a crash, copies missing in the state are compared again.
    if (performance.now() - this.#keptMs >= KEEP_MS) this.keep()
  }

  /** True when the copy is there now, with a checkpoint over `leaves` leaves. @throws Error when that cannot be told */
  async isThere({ path }: ClosedSegment, leaves: number): Promise<boolean> {
    const name = this.#copyOf(path)
    const digest = name === undefined ? undefined : this.#state.segments[name]
    if (name === undefined || digest === undefined || (leaves > 0 && !this.#hasTree(leaves))) return false
    if (await this.#target.has(name, digest)) return true
    delete this.#state.segments[name]
    this.keep()
    return false
  }

  /** @throws Error when this is not the log that was copied: the target would hold parts of two logs */
  checkLog(): void {
    const tree = SealedTree.of(this.#auditFile)
    if (tree === undefined || this.#isOf(tree)) return
    throw new Error(
      `the log of the trail does not go on from the one that was copied to ${this.#target.name}: ` +
        'give audit.ship another prefix or directory',
    )
  }

  #hasTree(leaves: number): boolean {
    const tree = SealedTree.of(this.#auditFile)
    return this.#state.tree >= leaves && tree !== undefined && this.#isOf(tree)
  }

  #isOf(log: SealedTree): boolean {
    const { tree, root } = this.#state
    return root === undefined || log.hasGrownFrom(tree, Buffer.from(root, 'base64'))
  }

  forget(segments: readonly ClosedSegment[]): void {
    const names = new Set(segments.map(({ path }) => plainPath(basename(path))))
    const gone = Object.keys(this.#state.segments).filter((name) => !names.has(plainPath(name)))
    for (const name of gone) delete this.#state.segments[name]
    if (gone.length > 0) this.keep()
  }

  /** @throws Error; the next call continues */
  async shipTree(): Promise<void> {
    // The log lies beside the given name, which may be a link. Copies are named after the file itself.
    const directory = logDirectory(this.#auditFile)
    if (!existsSync(checkpointFile(directory))) return
    const checkpoint = readRegularFile(checkpointFile(directory))
    const { size, root } = parseCheckpoint(parseNote(checkpoint).text)
    if (size <= this.#state.tree) return
    const tiles = new TileReader(directory, size)
    const { firstLeaf } = new SealedTree(directory, size)
    for (let level = 0; hashesOnLevel(size, level) > 0; level++) {
      const pruned = Math.floor(firstLeaf / TILE_WIDTH ** (level + 1))
      const shipped = fullTiles(this.#state.tree, level)
      for (let index = Math.max(pruned, shipped); index < fullTiles(size, level); index++) {
        await this.#put(tilePath(level, index), tiles.tile(level, index), false)
      }
    }
    for (const { level, index, width } of partialTiles(size)) {
      await this.#put(tilePath(level, index, width), tiles.tile(level, index), false)
    }
    await this.#put('checkpoint', checkpoint, true)
    this.#state.tree = size
    this.#state.root = root.toString('base64')
    this.keep()
  }

  async #put(path: string, bytes: Buffer, replaces: boolean): Promise<void> {
    const name = `${basename(logDirectory(realPathOf(this.#auditFile)))}/${path}`
    await this.#target.put(name, { bytes }, await digestOf({ bytes }), replaces)
  }

  keep(): void {
    this.#keptMs = performance.now()
    replaceFile(fileOf(this.#auditFile), [`${JSON.stringify(this.#state)}\n`])
  }
}

function fullTiles(size: number, level: number): number {
  return Math.floor(hashesOnLevel(size, level) / TILE_WIDTH)
}

function fileOf(auditFile: string): string {
  return `${realPathOf(auditFile)}.shipped`
}

function readShipped(file: string, to: string): Shipped | undefined {
  if (!existsSync(file)) return undefined
  try {
    const state: Shipped = JSON.parse(readRegularFile(file, MAX_STATE_BYTES).toString())
    if (state.to !== to) return undefined
    // An older version wrote no `root`. Tiles and checkpoint are then compared again.
    return state.root === undefined ? { ...state, tree: 0 } : state
  } catch (error) {
    throw new Error(
      `${file} cannot be read: ${(error as Error).message}; remove it, and everything is shipped again`,
    )
  }
}
