import { HASH_BYTES, type HashText } from '../../audit/seals/hashes.ts'
import { TILE_WIDTH } from '../../audit/seals/tiles.ts'

/** A tile as the lines make it; the hashes before `from` are of lines that were not read. */
export interface MadeTile {
  readonly level: number
  readonly index: number
  readonly bytes: Buffer
  readonly from: number
  readonly width: number
}

interface Level {
  readonly bytes: Buffer
  index: number
  from: number
  width: number
}

/** Makes tiles from hashes as the tree grows. */
export class MadeTiles {
  readonly #levels: Level[]
  readonly #first: number
  readonly #onFull: (tile: MadeTile) => void

  /** @param first index of the first leaf. */
  constructor(first: number, onFull: (tile: MadeTile) => void, levels: Level[] = []) {
    this.#first = first
    this.#onFull = onFull
    this.#levels = levels
  }

  /** Tiles that grow from here by themselves. */
  copy(): MadeTiles {
    const levels = this.#levels.map((level) => ({ ...level, bytes: Buffer.from(level.bytes) }))
    return new MadeTiles(this.#first, this.#onFull, levels)
  }

  readonly add = (levelNumber: number, hash: HashText): void => {
    const level = this.#level(levelNumber)
    level.bytes.write(hash, level.width * HASH_BYTES, 'latin1')
    level.width++
    if (level.width < TILE_WIDTH) return
    this.#onFull({ level: levelNumber, ...level })
    level.index++
    level.from = 0
    level.width = 0
  }

  /** The tiles of the right edge that are not full. */
  partial(): MadeTile[] {
    return this.#levels.flatMap((level, i) => (level.width > level.from ? [{ level: i, ...level }] : []))
  }

  #level(level: number): Level {
    while (this.#levels.length <= level) {
      const place = Math.floor(this.#first / TILE_WIDTH ** this.#levels.length)
      const from = place % TILE_WIDTH
      const index = Math.floor(place / TILE_WIDTH)
      this.#levels.push({ bytes: Buffer.alloc(TILE_WIDTH * HASH_BYTES), index, from, width: from })
    }
    return this.#levels[level] as Level
  }
}
