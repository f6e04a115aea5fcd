import { hash, X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { type Checkpoint, parseCheckpoint } from '../audit/seals/checkpoint.ts'
import { cosignatureVerifier, cosignedAtMs } from '../audit/seals/cosignature.ts'
import { NoteFault, parseNote, parseVerifierKey } from '../audit/seals/signed-note.ts'
import { stampedSizes } from '../audit/witness/stamps/stamp-files.ts'
import { checkStamp } from '../audit/witness/stamps/stamp-response.ts'
import { areEnough, readWitnessed, type Witnesses } from '../audit/witness/witnessed-checkpoint.ts'
import type { TlogPolicy } from '../config/tlog-policy.ts'
import { certificatesIn } from '../config/witness-settings.ts'
import { readRegularFile } from '../storage/regular-file.ts'
import { plural } from '../terminal/printable.ts'
import type { Finding } from './verify/finding.ts'
import { openCheckpoint, type TrustedKey } from './verify/trusted-key.ts'

/** The message names the file. */
export class AttestationFault extends Error {}

/**
 * @param keys C2SP verifier keys @param count how many must have signed
 * @throws Error when one is no key of a witness, or is there twice
 */
export function trustedWitnesses(keys: readonly string[], count = keys.length): Witnesses {
  const parsed = keys.map((text) => {
    try {
      const key = parseVerifierKey(text)
      return { ...key, verifier: cosignatureVerifier(key) }
    } catch (error) {
      throw new Error(`the key of a witness, ${text}, ${(error as Error).message}`)
    }
  })
  for (const [index, { publicKey, name }] of parsed.entries()) {
    const isRepeated = parsed.slice(0, index).some((other) => other.publicKey.equals(publicKey))
    if (isRepeated) throw new Error(`the key of the witness ${name} is given twice, and would count twice`)
  }
  if (!(count >= 1 && count <= keys.length)) {
    throw new Error(`the quorum must be 1 to ${keys.length}, the number of witnesses, but is ${count}`)
  }
  return { verifiers: parsed.map(({ verifier }) => verifier), quorum: { least: count, members: keys } }
}

export function witnessesOf({ witnesses, quorum }: TlogPolicy): Witnesses {
  return { verifiers: witnesses.map(({ key }) => cosignatureVerifier(parseVerifierKey(key))), quorum }
}

/** Verifies the witnesses' signatures, not the log's. @throws AttestationFault when too few have signed */
export function openWitnessed(
  file: string,
  witnesses: Witnesses,
): KeptCheckpoint & { readonly checkpoint: Checkpoint } {
  const bytes = readRegularFile(file)
  try {
    const { checkpoint, signers } = readWitnessed(bytes, witnesses.verifiers)
    const times = signers.map(
      ({ name, signature }) => `${name} at ${new Date(cosignedAtMs(signature)).toISOString()}`,
    )
    if (areEnough(witnesses, signers))
      return { file, bytes, checkpoint, says: `signed by ${times.join(', ')}` }
    const found = signers.length === 0 ? 'none' : times.join(', ')
    const { least, members } = witnesses.quorum
    const must = members.every((one) => typeof one === 'string')
      ? `by ${signers.length} of the ${least} witnesses that must sign it`
      : 'by too few of the witnesses that must sign it'
    throw new AttestationFault(`${file} is signed ${must}: ${found}`)
  } catch (error) {
    if (error instanceof NoteFault) throw new AttestationFault(`${file} ${error.message}`)
    throw error
  }
}

/** @param file PEM */
export function readAuthorities(file: string): readonly X509Certificate[] {
  const found = certificatesIn(readRegularFile(file).toString())
  if (found.length === 0) throw new Error(`${file} holds no certificate in PEM`)
  return found.map((pem) => new X509Certificate(pem))
}

/** Verifies `<size>.tsr` for each `<size>.checkpoint`. @throws AttestationFault */
export function openStamps(
  directory: string,
  authorities: readonly X509Certificate[],
): readonly KeptCheckpoint[] {
  return stampedSizes(directory).map((size) => {
    const file = join(directory, `${size}.checkpoint`)
    const bytes = readRegularFile(file)
    try {
      parseCheckpoint(parseNote(bytes).text)
      const response = readRegularFile(join(directory, `${size}.tsr`))
      const { timeMs } = checkStamp(response, { hash: hash('sha256', bytes, 'buffer'), authorities })
      return { file, bytes, says: `stamped at ${new Date(timeMs).toISOString()}` }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw error
      throw new AttestationFault(`${file} ${(error as Error).message}`)
    }
  })
}

/** A checkpoint that was kept outside the log. */
export interface KeptCheckpoint {
  readonly file: string
  readonly bytes: Uint8Array
  /** Names who attests it, and since when. */
  readonly says: string
}

export interface ProvenLog {
  readonly checkpoint: Checkpoint
  /** The root of an earlier tree; undefined: tiles are missing; 'unproven': they do not lead to the signed root. */
  provenRootAt(size: number): Buffer | 'unproven' | undefined
}

/** Tells whether the log continues a kept checkpoint. `isKnown` is false if tiles under the checkpoint are missing. */
export function compareKept(
  { file, bytes, says }: KeptCheckpoint,
  key: TrustedKey,
  log: ProvenLog,
): Finding | { readonly isKnown: boolean; readonly text: string } {
  let kept: Checkpoint
  try {
    // The ML-DSA key may be newer than the checkpoint.
    kept = openCheckpoint(bytes, { ...key, least: 'one' })
  } catch (error) {
    if (error instanceof NoteFault) return { what: 'checkpoint', text: `${file} ${error.message}` }
    throw error
  }
  const { origin, size } = log.checkpoint
  if (kept.origin !== origin) {
    return { what: 'checkpoint', text: `the log is ${origin}, and ${file} is of ${kept.origin}` }
  }
  if (kept.size > size) {
    const text = `${file}, ${says}, is over ${plural(kept.size, 'line')}, and the log has ${size.toLocaleString('en')}`
    return { what: 'rolled back', text }
  }
  const root = kept.size === size ? log.checkpoint.root : log.provenRootAt(kept.size)
  if (root === undefined) return { isKnown: false, text: `${file} is older than what is left of the log` }
  if (root === 'unproven') {
    const text = `nothing proves that the log continues ${file}, ${says}: tiles under that checkpoint are not those of the signed log, as when the log was written anew with the same key`
    return { what: 'rolled back', text }
  }
  if (root.equals(kept.root)) return { isKnown: true, text: `${plural(kept.size, 'line')} ${says}: ${file}` }
  const text = `the log does not continue ${file}, ${says}: it was written anew with the same key`
  return { what: 'rolled back', text }
}
