import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseCheckpoint } from './checkpoint.ts'
import {
  ed25519Verifier,
  formatNote,
  formatVerifierKey,
  parseNote,
  parseVerifierKey,
  signersOf,
  verifierKey,
} from './signed-note.ts'

/** The example of the specification. */
const KEY = 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k'
const NOTE = `This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
`
const CHECKPOINT = `example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
`

const verifier = ed25519Verifier(parseVerifierKey(KEY))
const signers = (note: string) => signersOf(parseNote(Buffer.from(note)), [verifier]).map(({ name }) => name)

test('the example of the signed-note specification verifies, and is written as it was read', () => {
  const note = parseNote(Buffer.from(NOTE))
  assert.equal(note.text, 'This is an example message.\n')
  assert.equal(formatNote(note), NOTE)
  assert.deepEqual(signers(NOTE), ['example.com/foo'])
  assert.equal(formatVerifierKey(parseVerifierKey(KEY)), KEY)
})

test('a signature of another key is ignored, and a wrong one of this key is a fault', () => {
  assert.deepEqual(signers(NOTE.replace('foo Uw2Q', 'foo Vw2Q')), [])
  assert.deepEqual(signers(NOTE.replace('— example.com/foo', '— example.com/bar')), [])
  assert.throws(
    () => signers(NOTE.replace('message', 'massage')),
    /has a wrong signature of example.com\/foo/,
  )
  const twice = `${NOTE}${NOTE.slice(NOTE.indexOf('—'))}`
  assert.deepEqual(signers(twice), ['example.com/foo'])
})

test('what is no note is refused', () => {
  for (const [note, reason] of [
    ['', /is no signed note/],
    ['text\n\n', /has a malformed signature line/],
    [NOTE.slice(0, -1), /is no signed note/],
    [NOTE.replace('— ', '- '), /has a malformed signature line/],
    [NOTE.replace('aQM=', 'aQN='), /has a signature that is not base64/],
    [NOTE.replace('foo Uw2', 'foo U\tw2'), /has a control character/],
    ['text\n\n— a AAAA\n', /has a signature that is not base64/],
    [`text\n\n${'— a AAAAAAAA\n'.repeat(65)}`, /has too many signatures/],
    [`${'x'.repeat(300_000)}\n`, /is too long for a note/],
  ] as const) {
    assert.throws(() => parseNote(Buffer.from(note)), reason)
  }
  assert.throws(() => parseNote(Buffer.from('é\n\n', 'latin1')), /is not UTF-8/)
})

test('the example of the checkpoint specification is read', () => {
  const { text } = parseNote(Buffer.from(CHECKPOINT))
  const { origin, size, root } = parseCheckpoint(text)
  assert.deepEqual([origin, size], ['example.com/behind-the-sofa', 20_852_163])
  assert.equal(root.toString('base64'), 'CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=')
  assert.equal(parseCheckpoint(`${text}an extension\n`).size, size)
})

test('what is no checkpoint is refused', () => {
  const root = 'CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I='
  for (const [text, reason] of [
    ['', /is no checkpoint/],
    ['a\n1\n', /is no checkpoint/],
    [`\n1\n${root}\n`, /is no checkpoint/],
    [`a\n01\n${root}\n`, /is no checkpoint/],
    [`a\n-1\n${root}\n`, /is no checkpoint/],
    [`a\n1\n${root}`, /is no checkpoint/],
    [`a\n1\n${root}\n\n`, /is no checkpoint/],
    [`a\n9007199254740992\n${root}\n`, /has a tree size that is too large/],
    ['a\n1\nAAAA\n', /has a root that is not the base64 of 32 bytes/],
    [`a\n1\n${root.replace('2I=', '2J=')}\n`, /has a root that is not the base64/],
  ] as const) {
    assert.throws(() => parseCheckpoint(text), reason)
  }
})

test('what is no verifier key is refused', () => {
  for (const [key, reason] of [
    ['', /is no verifier key/],
    [KEY.replace('530d903a', '530D903A'), /is no verifier key/],
    [KEY.replace('example.com/foo', 'example com'), /is no verifier key/],
    [KEY.replace('530d903a', '530d903b'), /has the key id 530d903b, but its key has 530d903a/],
    [`${KEY}=`, /has a key that is not base64/],
  ] as const) {
    assert.throws(() => parseVerifierKey(key), reason)
  }
  assert.throws(() => ed25519Verifier(verifierKey('a', 6, Buffer.alloc(1312))), /signature type 6/)
})
