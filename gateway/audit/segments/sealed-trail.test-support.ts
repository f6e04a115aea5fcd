import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { checkpointText } from '../seals/checkpoint.ts'
import { type HashText, hashBytes } from '../seals/hashes.ts'
import { LineHasher } from '../seals/line-hasher.ts'
import { formatNote } from '../seals/signed-note.ts'
import { checkpointFile, logDirectory, TILE_WIDTH, tilePath } from '../seals/tiles.ts'
import { TreeEdge } from '../seals/tree-edge.ts'

/** Writes the log of a trail: its tiles, and a checkpoint that nobody has signed. @returns its size */
export function sealTrail(auditFile: string, paths: readonly string[]): number {
  const levels: HashText[][] = []
  const edge = new TreeEdge((level, hash) => {
    levels[level] ??= []
    levels[level].push(hash)
  })
  const hasher = new LineHasher((hash) => edge.append(hash))
  for (const path of paths) hasher.push(readFileSync(path))
  const directory = logDirectory(auditFile)
  for (const [level, hashes] of levels.entries()) {
    for (let at = 0; at < hashes.length; at += TILE_WIDTH) {
      const tile = hashes.slice(at, at + TILE_WIDTH).map(hashBytes)
      const path = join(directory, tilePath(level, at / TILE_WIDTH, tile.length))
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, Buffer.concat(tile))
    }
  }
  const text = checkpointText({ origin: 'test', size: edge.size, root: edge.root() })
  const signature = { name: 'test', keyId: '00000000', signature: Buffer.alloc(64) }
  writeFileSync(checkpointFile(directory), formatNote({ text, signatures: [signature] }))
  return edge.size
}
