import type { Checkpoint } from '../../audit/seals/checkpoint.ts'
import { leafHash, leafOf } from '../../audit/seals/hashes.ts'
import { verifyInclusion } from '../../audit/seals/proofs.ts'
import { areEnough, readWitnessed, type Witnesses } from '../../audit/witness/witnessed-checkpoint.ts'
import { openCheckpoint, type TrustedKey } from '../verify/trusted-key.ts'
import { parseProofs, type TlogProof } from './tlog-proof.ts'

interface ProvenLine {
  readonly line: string
  readonly index: number
  readonly checkpoint: Checkpoint
}

/**
 * Checks proofs by nothing but the key, and witnesses that must have signed too.
 *
 * @returns what is proven, and what is wrong with the others.
 */
export function checkProofs(
  text: string,
  key: TrustedKey,
  witnesses?: Witnesses,
): { proven: ProvenLine[]; faults: string[] } {
  const proven: ProvenLine[] = []
  const faults: string[] = []
  try {
    for (const proof of parseProofs(text)) {
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
