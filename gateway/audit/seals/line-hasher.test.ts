import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { LEAF_MAX_BYTES, leafHash, leafOf } from './hashes.ts'
import { LineHasher } from './line-hasher.ts'

interface Seen {
  readonly hash: string
  readonly leaf: string
  readonly lineBytes: number
}

/** What a hasher sees in these chunks, and how many bytes are left. */
function seenIn(chunks: readonly Buffer[]): { readonly seen: Seen[]; readonly unfinished: number } {
  const seen: Seen[] = []
  const hasher = new LineHasher((hash, bytes, start, end, lineBytes) => {
    seen.push({
      hash: Buffer.from(hash, 'latin1').toString('hex'),
      leaf: bytes.toString('latin1', start, end),
      lineBytes,
    })
  })
  for (const chunk of chunks) hasher.push(chunk)
  return { seen, unfinished: hasher.unfinishedBytes }
}

function expected(line: Buffer): Seen {
  const leaf = Buffer.from(leafOf(line))
  return { hash: leafHash(leaf).toString('hex'), leaf: leaf.toString('latin1'), lineBytes: line.length }
}

test('each line is a leaf, byte for byte, however the bytes come', () => {
  // Many short lines, some as long as a leaf may be, some longer than the buffer.
  const length = fc.oneof(
    fc.integer({ min: 0, max: 300 }),
    fc.integer({ min: LEAF_MAX_BYTES - 2, max: LEAF_MAX_BYTES + 2 }),
    fc.constant(300_000),
  )
  const texts = fc.array(fc.tuple(length, fc.integer({ min: 11, max: 255 })), { maxLength: 8 })
  fc.assert(
    fc.property(texts, fc.integer({ min: 1, max: 200_000 }), fc.nat(500), (lines, chunkBytes, restBytes) => {
      const whole = lines.map(([bytes, fill]) =>
        Buffer.concat([Buffer.alloc(bytes, fill), Buffer.from('\n')]),
      )
      const file = Buffer.concat([...whole, Buffer.alloc(restBytes, 'x')])
      const chunks: Buffer[] = []
      for (let at = 0; at < file.length; at += chunkBytes) chunks.push(file.subarray(at, at + chunkBytes))
      assert.deepEqual(seenIn(chunks), { seen: whole.map(expected), unfinished: restBytes })
    }),
    { numRuns: 60 },
  )
})

test('a line that is too long for a log becomes a leaf with its length and hash', () => {
  const line = Buffer.from(`${'y'.repeat(LEAF_MAX_BYTES)}\n`)
  const sha256 = createHash('sha256').update(line).digest('hex')
  assert.equal(
    Buffer.from(leafOf(line)).toString(),
    `{"type":"OVERSIZE","bytes":65536,"sha256":"${sha256}"}\n`,
  )
  assert.equal(leafOf(line.subarray(1)).length, LEAF_MAX_BYTES)
})

test('a reset forgets the beginning of a line', () => {
  const leaves: number[] = []
  const hasher = new LineHasher((_hash, _bytes, _start, _end, lineBytes) => leaves.push(lineBytes))
  hasher.push(Buffer.alloc(150_000, 'z'))
  hasher.reset()
  hasher.push(Buffer.from('a\n'))
  assert.deepEqual([leaves, hasher.unfinishedBytes], [[2], 0])
})
