import { createPublicKey, type KeyObject } from 'node:crypto'
import { existsSync } from 'node:fs'
import { type Checkpoint, parseCheckpoint } from '../../audit/seals/checkpoint.ts'
import { COSIGNATURE_ML_DSA_44, cosignatureVerifier, rawMlDsa44Key } from '../../audit/seals/cosignature.ts'
import { mlDsaKeyFile, rawPublicKey } from '../../audit/seals/seal-key.ts'
import {
  ED25519,
  ed25519Verifier,
  NoteFault,
  type NoteVerifier,
  parseNote,
  parseVerifierKey,
  signersOf,
  type VerifierKey,
  verifierKey,
} from '../../audit/seals/signed-note.ts'
import { checkpointFile } from '../../audit/seals/tiles.ts'
import { readRegularFile } from '../../storage/regular-file.ts'
import type { Finding } from './finding.ts'

export interface TrustedKey {
  /** @throws NoteFault when the policy has no key for this log */
  verifiersOf(logName: string): readonly NoteVerifier[]
  /** Verifiers that must have signed. A wrong signature of any other is a fault too. */
  readonly least: 'all' | 'first' | 'one'
}

/**
 * Reads verifier keys (C2SP signed-note), separated by commas or white space, or a file with them or with a key in PEM.
 * An ML-DSA-44 key beside a PEM file is read, but need not have signed. @throws Error for anything else
 */
export function trustedKey(given: string): TrustedKey {
  try {
    const text = isVerifierKeys(given) ? given : readRegularFile(given).toString()
    if (text.includes('-----BEGIN')) {
      const second = mlDsaKeyFile(given)
      const pems = existsSync(second) ? [text, readRegularFile(second).toString()] : [text]
      const keys = pems.map((pem) => createPublicKey(pem))
      const verifiers = keys.map(namedVerifier)
      return { least: 'first', verifiersOf: (name) => verifiers.map((verifierOf) => verifierOf(name)) }
    }
    const verifiers = listed(text).map((key) => logVerifier(parseVerifierKey(key)))
    if (verifiers.length === 0) throw new NoteFault('holds no key')
    return { least: 'all', verifiersOf: () => verifiers }
  } catch (error) {
    const it = error instanceof NoteFault ? 'it ' : ''
    throw new Error(`the key ${given} cannot be used: ${it}${(error as Error).message}`)
  }
}

/** The keys of a C2SP tlog-policy, one of which is enough. */
export function keyOfPolicy(logs: readonly string[]): TrustedKey {
  const verifiers = logs.map((key) => logVerifier(parseVerifierKey(key)))
  return {
    least: 'one',
    verifiersOf: (logName) => {
      const found = verifiers.filter(({ name }) => name === logName)
      if (found.length === 0) throw new NoteFault(`is of the log ${logName}, which the policy does not name`)
      return found
    },
  }
}

function logVerifier(key: VerifierKey): NoteVerifier {
  return key.type === COSIGNATURE_ML_DSA_44 ? cosignatureVerifier(key) : ed25519Verifier(key)
}

function namedVerifier(key: KeyObject): (name: string) => NoteVerifier {
  const kind = key.asymmetricKeyType
  if (kind === 'ed25519') return (name) => logVerifier(verifierKey(name, ED25519, rawPublicKey(key)))
  if (kind !== 'ml-dsa-44') throw new NoteFault(`is of the kind ${kind}, but must be Ed25519 or ML-DSA-44`)
  return (name) => logVerifier(verifierKey(name, COSIGNATURE_ML_DSA_44, rawMlDsa44Key(key)))
}

function listed(keys: string): string[] {
  return [...new Set(keys.split(/[\s,]+/))].filter((key) => key !== '')
}

function isVerifierKeys(text: string): boolean {
  try {
    return listed(text).map(parseVerifierKey).length > 0
  } catch {
    return false
  }
}

/** @throws NoteFault when the bytes are no checkpoint that the keys have signed */
export function openCheckpoint(bytes: Uint8Array, key: TrustedKey): Checkpoint {
  const note = parseNote(bytes)
  const checkpoint = parseCheckpoint(note.text)
  const verifiers = key.verifiersOf(checkpoint.origin)
  const stranger = verifiers.find(({ name }) => name !== checkpoint.origin)
  if (stranger !== undefined) {
    throw new NoteFault(`is of the log ${checkpoint.origin}, but the key is for ${stranger.name}`)
  }
  const signers = signersOf(note, verifiers)
  const needed = key.least === 'first' ? verifiers.slice(0, 1) : verifiers
  const missing = needed.find((verifier) => !signers.includes(verifier))
  if (missing === undefined || (key.least === 'one' && signers.length > 0)) return checkpoint
  const others = note.signatures.map(({ name, keyId }) => `${name}+${keyId}`).join(', ')
  throw new NoteFault(`is not signed by the trusted key ${missing.name}+${missing.keyId}, but by ${others}`)
}

export function openLog(directory: string, key: TrustedKey): Checkpoint | Finding {
  const file = checkpointFile(directory)
  try {
    return openCheckpoint(readRegularFile(file), key)
  } catch (error) {
    if (error instanceof NoteFault) return { what: 'checkpoint', text: `${file} ${error.message}` }
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return {
      what: 'checkpoint',
      text: `${file} is missing: the trail was never sealed, or its log was removed`,
    }
  }
}

/** Evidence is wrong, as opposed to unreadable. */
export class EvidenceFault extends Error {}

/** Verifies no signature. @throws EvidenceFault when it is no checkpoint */
export function readCheckpoint(file: string): { readonly note: Buffer; readonly checkpoint: Checkpoint } {
  const note = readRegularFile(file)
  try {
    return { note, checkpoint: parseCheckpoint(parseNote(note).text) }
  } catch (error) {
    throw error instanceof NoteFault ? new EvidenceFault(`${file} ${error.message}`, { cause: error }) : error
  }
}
