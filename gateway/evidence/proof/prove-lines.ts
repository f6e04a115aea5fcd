import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { parseCheckpoint } from '../../audit/seals/checkpoint.ts'
import { type HashText, leafHash } from '../../audit/seals/hashes.ts'
import { leafOf } from '../../audit/seals/leaf.ts'
import { inclusionProof, verifyInclusion } from '../../audit/seals/proofs.ts'
import { parseNote } from '../../audit/seals/signed-note.ts'
import { checkpointFile, hashesIn, TILE_WIDTH, TileFault, TileReader } from '../../audit/seals/tiles.ts'
import { WITNESSED_FILE } from '../../audit/witness/witnessed-checkpoint.ts'
import { readRegularFile } from '../../storage/regular-file.ts'
import { formatProof } from './tlog-proof.ts'

/**
 * A proof for each line: by the last checkpoint that witnesses have signed, if it covers them all, else by the last one.
 *
 * @param directory of the log. @throws Error when a line is not sealed yet, or the log is damaged.
 */
export function proveLines(directory: string, lines: readonly Buffer[]): string[] {
  const file = checkpointFile(directory)
  if (!existsSync(file)) throw new Error(`${file} is missing: the trail is not sealed`)
  const newest = new TileReader(directory, sizeIn(file))
  const leaves = lines.map((line) => ({ line, hash: leafHash(leafOf(line)) }))
  const indices = indicesOf(
    newest,
    leaves.map(({ hash }) => hash),
  )
  const witnessed = join(directory, WITNESSED_FILE)
  const used = existsSync(witnessed) && indices.every((index) => index < sizeIn(witnessed)) ? witnessed : file
  const note = readRegularFile(used).toString()
  const { size, root } = parseCheckpoint(parseNote(Buffer.from(note)).text)
  const tiles = new TileReader(directory, size)
  return leaves.map(({ line, hash }, i) => {
    const index = indices[i] as number
    const proof = inclusionProof(tiles, index, size)
    if (!verifyInclusion({ index, size, leafHash: hash, proof, root })) {
      throw new Error(`the tiles in ${directory} do not lead to the root of ${used}: run "audit verify"`)
    }
    return formatProof({ extra: line, index, hashes: proof, checkpoint: note })
  })
}

function sizeIn(file: string): number {
  return parseCheckpoint(parseNote(readRegularFile(file)).text).size
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
      throw new Error('a record is not in the log: it is not sealed yet, or was changed')
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
