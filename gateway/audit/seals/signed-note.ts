import { createPublicKey, hash, verify } from 'node:crypto'

/** C2SP signed-note: a text with signatures. */
export interface Note {
  /** Ends in `\n`. */
  readonly text: string
  readonly signatures: readonly NoteSignature[]
}

export interface NoteSignature {
  readonly name: string
  /** First bytes of SHA-256(name ‖ `\n` ‖ type ‖ public key), as eight hexadecimal digits. */
  readonly keyId: string
  /** Without the key id. */
  readonly signature: Buffer
}

/** Fault of a note, checkpoint or key. The message is a sentence without its subject. */
export class NoteFault extends Error {}

export interface NoteVerifier {
  readonly name: string
  readonly keyId: string
  verify(text: Buffer, signature: Buffer): boolean
}

/** Post-quantum signatures have up to 5 kB, and 16 must be accepted. */
const NOTE_MAX_BYTES = 256 * 1024
const SIGNATURES_MAX = 64
const KEY_ID_BYTES = 4
const SIGNATURE_LINE = /^\u2014 ([^\s+]+) ([A-Za-z0-9+/]+={0,2})$/u
// biome-ignore lint/suspicious/noControlCharactersInRegex: a note must not contain them
const CONTROL = /[\u0000-\u0009\u000b-\u001f]/
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function isKeyName(name: string): boolean {
  return /^[^\s+]+$/u.test(name) && !CONTROL.test(name)
}

export function formatNote({ text, signatures }: Note): string {
  return `${text}\n${signatures.map(formatSignature).join('')}`
}

export function formatSignature({ name, keyId, signature }: NoteSignature): string {
  return `— ${name} ${Buffer.concat([Buffer.from(keyId, 'hex'), signature]).toString('base64')}\n`
}

/** Verifies nothing. @throws NoteFault */
export function parseNote(bytes: Uint8Array): Note {
  if (bytes.length > NOTE_MAX_BYTES) throw new NoteFault('is too long for a note')
  let whole: string
  try {
    whole = UTF8.decode(bytes)
  } catch {
    throw new NoteFault('is not UTF-8')
  }
  if (CONTROL.test(whole)) throw new NoteFault('has a control character, which a note must not have')
  const split = whole.lastIndexOf('\n\n')
  if (split === -1 || !whole.endsWith('\n')) throw new NoteFault('is no signed note')
  const lines = whole.slice(split + 2, -1).split('\n')
  if (lines.length > SIGNATURES_MAX) throw new NoteFault('has too many signatures')
  return { text: whole.slice(0, split + 1), signatures: lines.map(parseSignature) }
}

function parseSignature(line: string): NoteSignature {
  const [, name, base64] = SIGNATURE_LINE.exec(line) ?? []
  if (name === undefined || base64 === undefined) throw new NoteFault('has a malformed signature line')
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.toString('base64') !== base64 || bytes.length <= KEY_ID_BYTES) {
    throw new NoteFault('has a signature that is not base64')
  }
  return { name, keyId: bytes.toString('hex', 0, KEY_ID_BYTES), signature: bytes.subarray(KEY_ID_BYTES) }
}

export function signersOf<Verifier extends NoteVerifier>(
  note: Note,
  verifiers: readonly Verifier[],
): Verifier[] {
  return [...verifiedSignatures(note, verifiers).keys()]
}

/** The first signature of each of these keys. @throws NoteFault when one is wrong */
export function verifiedSignatures<Verifier extends NoteVerifier>(
  { text, signatures }: Note,
  verifiers: readonly Verifier[],
): ReadonlyMap<Verifier, NoteSignature> {
  const bytes = Buffer.from(text)
  const verified = new Map<Verifier, NoteSignature>()
  for (const one of signatures) {
    const verifier = verifiers.find(({ name, keyId }) => name === one.name && keyId === one.keyId)
    if (verifier === undefined || verified.has(verifier)) continue
    if (!verifier.verify(bytes, one.signature)) throw new NoteFault(`has a wrong signature of ${one.name}`)
    verified.set(verifier, one)
  }
  return verified
}

/** A public key in C2SP signed-note: `<name>+<key id>+<base64(type ‖ public key)>`. */
export interface VerifierKey {
  readonly name: string
  readonly keyId: string
  readonly type: number
  readonly publicKey: Buffer
}

export const ED25519 = 0x01
export const ED25519_KEY_BYTES = 32

export function verifierKey(name: string, type: number, publicKey: Buffer): VerifierKey {
  const digest = hash(
    'sha256',
    Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(type), publicKey]),
    'buffer',
  )
  return { name, keyId: digest.toString('hex', 0, KEY_ID_BYTES), type, publicKey }
}

export function formatVerifierKey({ name, keyId, type, publicKey }: VerifierKey): string {
  return `${name}+${keyId}+${Buffer.concat([Buffer.of(type), publicKey]).toString('base64')}`
}

/** @throws NoteFault, also when the key id does not fit the key */
export function parseVerifierKey(text: string): VerifierKey {
  const [name = '', keyId = '', ...rest] = text.trim().split('+')
  // Base64 may hold a plus itself.
  const base64 = rest.join('+')
  const bytes = Buffer.from(base64, 'base64')
  const [type] = bytes
  if (!isKeyName(name) || !/^[0-9a-f]{8}$/.test(keyId) || type === undefined) {
    throw new NoteFault('is no verifier key: <name>+<8 hexadecimal digits>+<base64>')
  }
  if (bytes.toString('base64') !== base64) throw new NoteFault('has a key that is not base64')
  const key = verifierKey(name, type, bytes.subarray(1))
  if (key.keyId !== keyId) throw new NoteFault(`has the key id ${keyId}, but its key has ${key.keyId}`)
  return key
}

export function ed25519Verifier({ name, keyId, type, publicKey }: VerifierKey): NoteVerifier {
  if (type !== ED25519 || publicKey.length !== ED25519_KEY_BYTES) {
    throw new NoteFault(`is of signature type ${type}, but must be an Ed25519 key (type 1)`)
  }
  const key = ed25519PublicKey(publicKey)
  return { name, keyId, verify: (text, signature) => verify(null, text, key, signature) }
}

/** @param bytes the 32 bytes of RFC 8032. */
export function ed25519PublicKey(bytes: Buffer) {
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') }
  return createPublicKey({ format: 'jwk', key: jwk })
}
