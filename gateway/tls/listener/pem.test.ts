import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readPem } from './pem.ts'

const A = '-----BEGIN A-----\nAAAA\nBB==\n-----END A-----\n'

const labels = (file: string) => {
  const blocks = readPem(file)
  return typeof blocks === 'string' ? blocks : blocks.map(({ label, der }) => `${label} ${der.length}`)
}

test('blocks stand in order, with anything between them', () => {
  assert.deepEqual(labels(`a subject\n${A}-- more --\n${A.replaceAll('A-----', 'B C-----  ')}`), [
    'A 4',
    'B C 4',
  ])
  assert.deepEqual(labels(A.replaceAll('\n', '\r\n')), ['A 4'])
  assert.deepEqual(readPem(`x\n${A}`), [{ label: 'A', text: A, der: Buffer.from('AAAABB==', 'base64') }])
})

test('an encrypted key of the old kind has header lines, and no bytes', () => {
  assert.deepEqual(labels(A.replace('AAAA', 'Proc-Type: 4,ENCRYPTED\n\nAAAA')), ['A 0'])
})

test('a file that is cut off, or no PEM, is a fault', () => {
  assert.match(String(labels('')), /^is not PEM/)
  assert.match(String(labels(`${A}-----BEGIN A-----\nAAAA\n`)), /^has 2 BEGIN lines, but only 1 whole block/)
  assert.match(String(labels(`-----BEGIN A-----\nAAAA\n${A}`)), /^has 2 BEGIN lines, but only 1 whole block/)
  assert.match(String(labels('-----BEGIN A-----\nAAAA\n-----END B-----\n')), /^has 1 BEGIN lines/)
  for (const body of ['AA-A', 'AA=A', '', '====', 'AAé='])
    assert.equal(labels(`-----BEGIN A-----\n${body}\n-----END A-----\n`), 'block 1 is not base64', body)
})

test('a block of 26 MB is read', () => {
  const line = `${'A'.repeat(64)}\n`
  const long = `-----BEGIN A-----\n${line.repeat(400_000)}-----END A-----\n`
  assert.deepEqual(labels(long), [`A ${400_000 * 48}`])
})
