import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { checkpointText } from '../seals/checkpoint.ts'
import { type EdgeTile, EdgeTiles } from '../seals/edge-tiles.ts'
import { HASH_BYTES } from '../seals/hashes.ts'
import { LineHasher } from '../seals/line-hasher.ts'
import { formatNote } from '../seals/signed-note.ts'
import { checkpointFile, logDirectory, tilePath } from '../seals/tiles.ts'
import { TreeEdge } from '../seals/tree-edge.ts'

/** Writes the log of a trail: its tiles, and a checkpoint that nobody has signed. @returns its size */
export function sealTrail(auditFile: string, paths: readonly string[]): number {
  const directory = logDirectory(auditFile)
  const write = ({ level, index, width, bytes }: EdgeTile) => {
    const path = join(directory, tilePath(level, index, width))
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, bytes.subarray(0, width * HASH_BYTES))
  }
  const tiles = new EdgeTiles(0, write)
  const edge = new TreeEdge(tiles.add)
  const hasher = new LineHasher((hash) => edge.append(hash))
  for (const path of paths) hasher.push(readFileSync(path))
  tiles.partial().forEach(write)
  const text = checkpointText({ origin: 'test', size: edge.size, root: edge.root() })
  const signature = { name: 'test', keyId: '00000000', signature: Buffer.alloc(64) }
  writeFileSync(checkpointFile(directory), formatNote({ text, signatures: [signature] }))
  return edge.size
}
