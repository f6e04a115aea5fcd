import { createPublicKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { type Checkpoint, parseCheckpoint } from '../../audit/seals/checkpoint.ts'
import { rawPublicKey } from '../../audit/seals/seal-key.ts'
import { NoteFault, type NoteVerifier, parseNote, signersOf } from '../../audit/seals/signed-note.ts'
import { ED25519, ed25519Verifier, parseVerifierKey, verifierKey } from '../../audit/seals/verifier-key.ts'

/** The key that an auditor trusts, which must come from elsewhere than the trail. @param logName as the checkpoint has it. */
export type TrustedKey = (logName: string) => NoteVerifier

/**
 * @param given a verifier key (C2SP signed-note), or the name of a file with one, or with a public or private key in PEM.
 * A verifier key holds the name of the log; with PEM it is that of the checkpoint.
 * @throws Error when it is none of these.
 */
export function trustedKey(given: string): TrustedKey {
  try {
    const text = isVerifierKey(given) ? given : readFileSync(given, 'utf8')
    if (text.includes('-----BEGIN')) {
      const key = createPublicKey(text)
      if (key.asymmetricKeyType !== 'ed25519')
        throw new Error(`is a key of the kind ${key.asymmetricKeyType}`)
      const publicKey = rawPublicKey(key)
      return (logName) => ed25519Verifier(verifierKey(logName, ED25519, publicKey))
    }
    const verifier = ed25519Verifier(parseVerifierKey(text))
    return () => verifier
  } catch (error) {
    throw new Error(`the key ${given} cannot be used: ${(error as Error).message}`)
  }
}

function isVerifierKey(text: string): boolean {
  try {
    parseVerifierKey(text)
    return true
  } catch {
    return false
  }
}

/** @throws NoteFault when it is no checkpoint that the key has signed. */
export function openCheckpoint(bytes: Uint8Array, key: TrustedKey): Checkpoint {
  const note = parseNote(bytes)
  const checkpoint = parseCheckpoint(note.text)
  const verifier = key(checkpoint.origin)
  if (verifier.name !== checkpoint.origin) {
    throw new NoteFault(`is of the log ${checkpoint.origin}, and the key is for ${verifier.name}`)
  }
  if (signersOf(note, [verifier]).length > 0) return checkpoint
  const others = note.signatures.map(({ name, keyId }) => `${name}+${keyId}`).join(', ')
  throw new NoteFault(`is not signed by the trusted key ${verifier.name}+${verifier.keyId}, but by ${others}`)
}
