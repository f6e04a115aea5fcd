import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { HASH_BYTES, type HashText, hashBytes, leafHash } from '../seals/hashes.ts'
import { makeSealKey, readSealKey, type SealKey } from '../seals/seal-key.ts'
import { formatVerifierKey } from '../seals/signed-note.ts'
import { checkpointFile, partialTiles, TILE_WIDTH, tilePath } from '../seals/tiles.ts'
import { TreeEdge } from '../seals/tree-edge.ts'

/** A log of made-up lines in a directory, as the gateway would write it. */
export interface SealedLog {
  readonly directory: string
  readonly key: SealKey
  readonly vkey: string
  /** Appends so many leaves, writes their tiles and the checkpoint. @returns the size */
  grow(leaves: number, text?: string): number
}

/** @param key of another log that this one pretends to be */
export function makeSealedLog(directory: string, key = newKey(directory)): SealedLog {
  const levels: HashText[][] = []
  const edge = new TreeEdge((level, hash) => {
    levels[level] ??= []
    levels[level].push(hash)
  })
  const write = (path: string, bytes: Buffer) => {
    mkdirSync(dirname(join(directory, path)), { recursive: true })
    writeFileSync(join(directory, path), bytes)
  }
  return {
    directory,
    key,
    vkey: formatVerifierKey(key.verifier),
    grow(leaves, text = 'line') {
      for (let i = 0; i < leaves; i++) {
        edge.append(leafHash(Buffer.from(`${text} ${edge.size}\n`)).toString('latin1'))
      }
      for (const [level, hashes] of levels.entries()) {
        for (let at = 0; at + TILE_WIDTH <= hashes.length; at += TILE_WIDTH) {
          const tile = hashes.slice(at, at + TILE_WIDTH).map(hashBytes)
          write(tilePath(level, at / TILE_WIDTH), Buffer.concat(tile, TILE_WIDTH * HASH_BYTES))
        }
      }
      for (const { level, index, width } of partialTiles(edge.size)) {
        const hashes = (levels[level] ?? []).slice(index * TILE_WIDTH, index * TILE_WIDTH + width)
        write(tilePath(level, index, width), Buffer.concat(hashes.map(hashBytes)))
      }
      writeFileSync(checkpointFile(directory), key.seal({ size: edge.size, root: edge.root() }))
      return edge.size
    },
  }
}

function newKey(directory: string): SealKey {
  const file = join(directory, 'key.pem')
  makeSealKey(file)
  return readSealKey(file)
}
