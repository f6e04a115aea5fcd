import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Checkpoint } from '../audit/seals/checkpoint.ts'
import { HASH_BYTES, type HashText, leafHash, leafOf } from '../audit/seals/hashes.ts'
import { inclusionProof, verifyInclusion } from '../audit/seals/proofs.ts'
import {
  checkpointFile,
  hashesIn,
  TILE_WIDTH,
  TileFault,
  TileReader,
  unlessFaulty,
} from '../audit/seals/tiles.ts'
import {
  areEnough,
  readWitnessed,
  WITNESSED_FILE,
  type Witnesses,
} from '../audit/witness/witnessed-checkpoint.ts'
import { EvidenceFault, openCheckpoint, readCheckpoint, type TrustedKey } from './verify/trusted-key.ts'

interface TlogProof {
  /** The line of the trail. */
  readonly extra: Buffer
  readonly index: number
  /** From the leaf's sibling to the child of the root. */
  readonly hashes: readonly Buffer[]
  readonly checkpoint: string
}

const PROOF =
  /^c2sp\.org\/tlog-proof@v1\nextra ([A-Za-z0-9+/=]+)\nindex (0|[1-9]\d*)\n((?:[A-Za-z0-9+/]{43}=\n)*)\n([\s\S]+)$/
/** A proof of a tree of 2^63 leaves has 63 hashes. */
const HASHES_MAX = 63

function parseProof(text: string): TlogProof {
  const [, extra, index, path, checkpoint] = PROOF.exec(text) ?? []
  if (extra === undefined || path === undefined || checkpoint === undefined) {
    throw new Error(
      'is no C2SP tlog-proof of a line: it must have "extra" with the line, "index", the path and a checkpoint',
    )
  }
  const hashes = path
    .split('\n')
    .slice(0, -1)
    .map((line) => Buffer.from(line, 'base64'))
  if (hashes.length > HASHES_MAX || hashes.some(({ length }) => length !== HASH_BYTES)) {
    throw new Error(`has a path that is not at most ${HASHES_MAX} hashes of ${HASH_BYTES} bytes`)
  }
  return { extra: Buffer.from(extra, 'base64'), index: Number(index), hashes, checkpoint }
}

/**
 * Proves each line by the last checkpoint that witnesses have signed, if that covers all lines; else by the newest
 * checkpoint.
 * @throws EvidenceFault when a line is not sealed yet, or the log is damaged
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
  const tiles = new TileReader(directory, size)
  return leaves.map(({ line, hash }, i) => {
    const index = indices[i] as number
    const proof = proofOf(tiles, index)
    if (!verifyInclusion({ index, size, leafHash: hash, proof, root })) {
      throw new EvidenceFault(
        `the tiles in ${directory} do not lead to the root of ${used}: run "audit verify"`,
      )
    }
    const path = proof.map((one) => `${one.toString('base64')}\n`).join('')
    return `c2sp.org/tlog-proof@v1\nextra ${line.toString('base64')}\nindex ${index}\n${path}\n${note}`
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

function indicesOf(tiles: TileReader, hashes: readonly Buffer[]): number[] {
  const wanted = new Set(hashes.map((hash) => hash.toString('latin1')))
  const found = new Map<HashText, number>()
  for (let tile = 0; tile * TILE_WIDTH < tiles.size && found.size < wanted.size; tile++) {
    let index = tile * TILE_WIDTH
    for (const hash of hashesIn(unlessFaulty(() => tiles.tile(0, tile)) ?? Buffer.of())) {
      const text = hash.toString('latin1')
      if (wanted.has(text) && !found.has(text)) found.set(text, index)
      index++
    }
  }
  return hashes.map((hash) => {
    const index = found.get(hash.toString('latin1'))
    if (index === undefined)
      throw new EvidenceFault('a record is not in the log: it is not sealed yet, or was changed')
    return index
  })
}

/** Says why no checkpoint that the key has signed proves the line. Witnesses do not count. */
export function sealFault(directory: string, line: Buffer, key: TrustedKey): string | undefined {
  try {
    return checkProofs(proveLines(directory, [line]).join(''), key).faults[0]
  } catch (error) {
    if (error instanceof EvidenceFault) return error.message
    throw error
  }
}

interface ProvenLine {
  readonly line: string
  readonly index: number
  readonly checkpoint: Checkpoint
}

export function checkProofs(
  text: string,
  key: TrustedKey,
  witnesses?: Witnesses,
): { proven: ProvenLine[]; faults: string[] } {
  const proven: ProvenLine[] = []
  const faults: string[] = []
  try {
    const parts = text.split(/^(?=c2sp\.org\/tlog-proof@v1$)/m)
    for (const proof of parts.map(parseProof)) {
      const checked = check(proof, key, witnesses)
      if (typeof checked === 'string') faults.push(checked)
      else proven.push(checked)
    }
  } catch (error) {
    faults.push(`the proof ${(error as Error).message}`)
  }
  return { proven, faults }
}

function check(
  { extra, index, hashes, checkpoint: note }: TlogProof,
  key: TrustedKey,
  witnesses: Witnesses | undefined,
): ProvenLine | string {
  let checkpoint: Checkpoint
  try {
    const bytes = Buffer.from(note)
    checkpoint = openCheckpoint(bytes, key)
    if (witnesses !== undefined && !areEnough(witnesses, readWitnessed(bytes, witnesses.verifiers).signers)) {
      return 'the checkpoint of the proof is not signed by enough witnesses'
    }
  } catch (error) {
    return `the checkpoint of the proof ${(error as Error).message}`
  }
  const { size, root } = checkpoint
  const isIn = verifyInclusion({ index, size, leafHash: leafHash(leafOf(extra)), proof: hashes, root })
  return isIn
    ? { line: extra.toString(), index, checkpoint }
    : `the record is not line ${index + 1} of the log ${checkpoint.origin}`
}
