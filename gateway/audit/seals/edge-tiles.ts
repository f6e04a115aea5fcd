import { HASH_BYTES, type HashText } from './hashes.ts'
import { hashesOnLevel, TILE_WIDTH } from './tiles.ts'

interface Tile {
  readonly bytes: Buffer
  index: number
  /** Hashes before this one are unknown, or need not be written. */
  from: number
  width: number
}

export type EdgeTile = Readonly<Tile> & { readonly level: number }

/** The last tile of each level of a growing tree. */
export class EdgeTiles {
  readonly #size: number
  readonly #onFull: (tile: EdgeTile) => void
  readonly tiles: Tile[]

  /** @param size of the tree before the first `add` @param onFull gets bytes that are overwritten later */
  constructor(size: number, onFull: (tile: EdgeTile) => void, tiles: Tile[] = []) {
    this.#size = size
    this.#onFull = onFull
    this.tiles = tiles
  }

  copy(): EdgeTiles {
    const tiles = this.tiles.map((tile) => ({ ...tile, bytes: Buffer.from(tile.bytes) }))
    return new EdgeTiles(this.#size, this.#onFull, tiles)
  }

  readonly add = (level: number, hash: HashText): void => {
    const tile = this.at(level)
    tile.bytes.write(hash, tile.width * HASH_BYTES, 'latin1')
    tile.width++
    if (tile.width < TILE_WIDTH) return
    this.#onFull({ level, ...tile })
    tile.index++
    tile.from = 0
    tile.width = 0
  }

  partial(): EdgeTile[] {
    return this.tiles.flatMap((tile, level) => (tile.width > tile.from ? [{ level, ...tile }] : []))
  }

  at(level: number): Tile {
    while (this.tiles.length <= level) {
      const hashes = hashesOnLevel(this.#size, this.tiles.length)
      const width = hashes % TILE_WIDTH
      const index = Math.floor(hashes / TILE_WIDTH)
      this.tiles.push({ bytes: Buffer.alloc(TILE_WIDTH * HASH_BYTES), index, from: width, width })
    }
    return this.tiles[level] as Tile
  }
}
