import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type HashText, leafHash, leafOf } from '../../audit/seals/hashes.ts'
import { inclusionProof, verifyInclusion } from '../../audit/seals/proofs.ts'
import { checkpointFile, hashesIn, TILE_WIDTH, TileFault, TileReader } from '../../audit/seals/tiles.ts'
import { WITNESSED_FILE } from '../../audit/witness/witnessed-checkpoint.ts'
import { EvidenceFault, readCheckpoint } from '../log-checkpoint.ts'
import { formatProof } from './tlog-proof.ts'

/**
 * A proof for each line: by the last checkpoint that witnesses have signed, if it covers them all, else by the last one.
 *
 * @param directory of the log. @throws EvidenceFault when a line is not sealed yet, or the log is damaged; Error when a file cannot
 * be read.
 */
export function proveLines(directory: string, lines: readonly Buffer[]): string[] {
  const file = checkpointFile(directory)
  if (!existsSync(file)) throw new EvidenceFault(`${file} is missing: the trail is not sealed`)
  const newest = new TileReader(directory, sizeIn(file))
  const leaves = lines.map((line) => ({ line, hash: leafHash(leafOf(line)) }))
  const indices = indicesOf(
    newest,
    leaves.map(({ hash }) => hash),
  )
  const witnessed = join(directory, WITNESSED_FILE)
  const used = existsSync(witnessed) && indices.every((index) => index < sizeIn(witnessed)) ? witnessed : file
  const { note, checkpoint } = readCheckpoint(used)
  const { size, root } = checkpoint
  const text = note.toString()
  const tiles = new TileReader(directory, size)
  return leaves.map(({ line, hash }, i) => {
    const index = indices[i] as number
    const proof = proofOf(tiles, index)
    if (!verifyInclusion({ index, size, leafHash: hash, proof, root })) {
      throw new EvidenceFault(
        `the tiles in ${directory} do not lead to the root of ${used}: run "audit verify"`,
      )
    }
    return formatProof({ extra: line, index, hashes: proof, checkpoint: text })
  })
}

function sizeIn(file: string): number {
  return readCheckpoint(file).checkpoint.size
}

function proofOf(tiles: TileReader, index: number): readonly Buffer[] {
  try {
    return inclusionProof(tiles, index, tiles.size)
  } catch (error) {
    throw error instanceof TileFault ? new EvidenceFault(error.message, { cause: error }) : error
  }
}

/** Where the leaves stand in the tree. Each hash of the log is looked up once, however many lines one request has. */
function indicesOf(tiles: TileReader, hashes: readonly Buffer[]): number[] {
  const wanted = new Set(hashes.map(textOf))
  const found = new Map<HashText, number>()
  for (let tile = 0; tile * TILE_WIDTH < tiles.size && found.size < wanted.size; tile++) {
    let index = tile * TILE_WIDTH
    for (const hash of hashesIn(bytesOf(tiles, tile))) {
      const text = textOf(hash)
      if (wanted.has(text) && !found.has(text)) found.set(text, index)
      index++
    }
  }
  return hashes.map((hash) => {
    const index = found.get(textOf(hash))
    if (index === undefined)
      throw new EvidenceFault('a record is not in the log: it is not sealed yet, or was changed')
    return index
  })
}

function textOf(hash: Buffer): HashText {
  return hash.toString('latin1') as HashText
}

/** Pruned tiles are not there. */
function bytesOf(tiles: TileReader, tile: number): Buffer {
  try {
    return tiles.tile(0, tile)
  } catch (error) {
    if (error instanceof TileFault) return Buffer.of()
    throw error
  }
}
