import assert from 'node:assert/strict'
import { createHash, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { parseCheckpoint } from './checkpoint.ts'
import { EMPTY_ROOT } from './hashes.ts'
import { makeSealKey, rawPublicKey, readSealKey } from './seal-key.ts'
import { parseNote, signersOf } from './signed-note.ts'
import { ed25519Verifier, formatVerifierKey, parseVerifierKey } from './verifier-key.ts'

function directoryOf(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'seal key '))
  t.after(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

test('a key is made once, for its owner only, and what it seals verifies', (t) => {
  const file = join(directoryOf(t), 'made', 'audit-seal-key.pem')
  assert.equal(makeSealKey(file), true)
  assert.equal(statSync(file).mode & 0o777, 0o600)
  const pem = readFileSync(file, 'utf8')
  assert.equal(makeSealKey(file), false)
  assert.equal(readFileSync(file, 'utf8'), pem)
  const key = readSealKey(file)
  const digest = createHash('sha256')
    .update(rawPublicKey(createPublicKey(pem)))
    .digest('hex')
  assert.equal(key.origin, `countersign/${digest.slice(0, 16)}`)
  const note = parseNote(Buffer.from(key.seal({ size: 0, root: EMPTY_ROOT })))
  assert.deepEqual(parseCheckpoint(note.text), { origin: key.origin, size: 0, root: EMPTY_ROOT })
  const verifier = ed25519Verifier(parseVerifierKey(formatVerifierKey(key.verifier)))
  assert.equal(signersOf(note, [verifier]).length, 1)
  assert.equal(readSealKey(file, 'audit.example.com/1').verifier.name, 'audit.example.com/1')
})

test('a file that holds no Ed25519 private key is refused, and the message says what it holds', (t) => {
  const file = join(directoryOf(t), 'key.pem')
  const pem = (key: KeyObject) =>
    String(key.export({ format: 'pem', type: key.type === 'public' ? 'spki' : 'pkcs8' }))
  const ed25519 = generateKeyPairSync('ed25519')
  const encrypted = ed25519.privateKey.export({
    format: 'pem',
    type: 'pkcs8',
    cipher: 'aes-256-cbc',
    passphrase: 'x',
  })
  for (const [text, reason] of [
    ['', /holds no PEM/],
    [pem(ed25519.publicKey), /holds a public key that cannot be read/],
    [String(encrypted), /holds an encrypted key/],
    [
      pem(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey),
      /of the kind ec, and must hold one of Ed25519/,
    ],
    [pem(generateKeyPairSync('ed448').privateKey), /of the kind ed448/],
  ] as const) {
    writeFileSync(file, text)
    assert.throws(() => readSealKey(file), reason)
    assert.throws(() => readSealKey(file), { message: new RegExp(`^seal key ${file} cannot be used`) })
  }
  assert.throws(() => readSealKey(join(file, 'none')), /seal key .*none cannot be used/)
})
