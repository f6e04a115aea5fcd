import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type EdgeTile, EdgeTiles } from '../seals/edge-tiles.ts'
import { HASH_BYTES, leafHash } from '../seals/hashes.ts'
import { makeSealKey, readSealKey, type SealKey } from '../seals/seal-key.ts'
import { formatVerifierKey } from '../seals/signed-note.ts'
import { checkpointFile, tilePath } from '../seals/tiles.ts'
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
  const write = ({ level, index, width, bytes }: EdgeTile) => {
    const path = join(directory, tilePath(level, index, width))
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, bytes.subarray(0, width * HASH_BYTES))
  }
  const tiles = new EdgeTiles(0, write)
  const edge = new TreeEdge(tiles.add)
  return {
    directory,
    key,
    vkey: formatVerifierKey(key.verifier),
    grow(leaves, text = 'line') {
      for (let i = 0; i < leaves; i++) {
        edge.append(leafHash(Buffer.from(`${text} ${edge.size}\n`)).toString('latin1'))
      }
      tiles.partial().forEach(write)
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
