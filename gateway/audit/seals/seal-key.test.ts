import assert from 'node:assert/strict'
import { createHash, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import fs, {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { sealedDisk } from '../sealed-disk.test-support.ts'
import { parseCheckpoint } from './checkpoint.ts'
import { cosignatureVerifier } from './cosignature.ts'
import { EMPTY_ROOT } from './hashes.ts'
import {
  makeMlDsaKey,
  makeSealKey,
  mlDsaKeyFile,
  rawPublicKey,
  readKeyFiles,
  readSealKey,
  sealKeyOf,
} from './seal-key.ts'
import { ed25519Verifier, formatVerifierKey, parseNote, parseVerifierKey, signersOf } from './signed-note.ts'

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

test('a key that was made is there after a power cut', (t) => {
  const { start, cut } = sealedDisk(t)
  const { directory } = start()
  const file = join(directory, 'made', 'audit-seal-key.pem')
  assert.equal(makeSealKey(file), true)
  const { image } = cut()
  const kept = readKeyFiles(join(image, 'made', 'audit-seal-key.pem'))
  assert.equal(sealKeyOf(kept).origin, readSealKey(file).origin)
})

test('a key is there whole or not at all, also when the process is killed before it is written', (t) => {
  const file = join(directoryOf(t), 'audit-seal-key.pem')
  const { writeFileSync: write } = fs
  const states: boolean[] = []
  replaceWrite(t, (...words) => {
    states.push(existsSync(file))
    write(...words)
  })
  assert.equal(makeSealKey(file), true)
  assert.deepEqual(states, [false])
  assert.deepEqual(readdirSync(dirname(file)), ['audit-seal-key.pem'])
})

test('a key that cannot be written is an error that names the file, and nothing of it is left', (t) => {
  const file = join(directoryOf(t), 'audit-seal-key.pem')
  const putBack = replaceWrite(t, () => {
    throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
  })
  assert.throws(
    () => makeSealKey(file),
    /^Error: seal key .*audit-seal-key\.pem cannot be used: ENOSPC: no space/,
  )
  assert.deepEqual(readdirSync(dirname(file)), [])
  putBack()
  assert.equal(makeSealKey(file), true)
  assert.equal(readSealKey(file).origin.length, 28)
})

function replaceWrite(t: TestContext, writeFileSync: typeof fs.writeFileSync): () => void {
  const { writeFileSync: write } = fs
  const put = (one: typeof write) => {
    Object.assign(fs, { writeFileSync: one })
    syncBuiltinESMExports()
  }
  put(writeFileSync)
  t.after(() => put(write))
  return () => put(write)
}

test('an ML-DSA-44 key beside the Ed25519 key signs too, and leaves the Ed25519 signature as it is', (t) => {
  const file = join(directoryOf(t), 'key.pem')
  makeSealKey(file)
  const before = readSealKey(file)
  assert.equal(before.mlDsaVerifier, undefined)
  const made = makeMlDsaKey(file) ?? assert.fail('this Node has no ML-DSA')
  assert.equal(made, file.replace('key.pem', 'key-ml-dsa-44.pem'))
  assert.equal(statSync(made).mode & 0o777, 0o600)
  assert.equal(makeMlDsaKey(file), undefined)
  const key = readSealKey(file)
  assert.deepEqual([key.origin, key.verifier], [before.origin, before.verifier])
  const tree = { size: 0, root: EMPTY_ROOT }
  const text = key.seal(tree)
  assert.ok(text.startsWith(before.seal(tree)), 'the text and the first signature are the same')
  const note = parseNote(Buffer.from(text))
  const second = parseVerifierKey(formatVerifierKey(key.mlDsaVerifier ?? assert.fail()))
  assert.equal(second.name, key.origin)
  const both = [ed25519Verifier(key.verifier), cosignatureVerifier(second)]
  assert.deepEqual(signersOf(note, both), both)
  const other = parseNote(Buffer.from(text.replace(/\n0\n/, '\n1\n')))
  for (const verifier of both) assert.throws(() => signersOf(other, [verifier]), /wrong signature/)

  writeFileSync(mlDsaKeyFile(file), readFileSync(file))
  assert.throws(() => readSealKey(file), /key-ml-dsa-44.pem .*kind ed25519, but must hold an ML-DSA-44 key/)
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
      /of the kind ec, but must hold an Ed25519 key/,
    ],
    [pem(generateKeyPairSync('ed448').privateKey), /of the kind ed448/],
  ] as const) {
    writeFileSync(file, text)
    assert.throws(() => readSealKey(file), reason)
    assert.throws(() => readSealKey(file), { message: new RegExp(`^seal key ${file} cannot be used`) })
  }
  assert.throws(() => readSealKey(join(file, 'none')), /seal key .*none cannot be used/)
})
