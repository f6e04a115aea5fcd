import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { temporaryDirectory } from '../trail.test-support.ts'
import { EMPTY_ROOT, HASH_BYTES, leafHash, nodeHash } from './hashes.ts'
import { consistencyProof, inclusionProof, rangeHash, verifyInclusion } from './proofs.ts'
import { TileFiles } from './tile-files.ts'
import {
  checkpointFile,
  hashesOnLevel,
  logDirectory,
  partialTiles,
  TILE_WIDTH,
  TileReader,
  tilePath,
  tileWidth,
} from './tiles.ts'
import { rootOf, subtreeHeights, TreeEdge } from './tree-edge.ts'

/** The tree that the tests of Certificate Transparency logs share. */
const LEAVES = [
  '',
  '00',
  '10',
  '2021',
  '3031',
  '40414243',
  '5051525354555657',
  '606162636465666768696a6b6c6d6e6f',
].map((hex) => leafHash(Buffer.from(hex, 'hex')))
const ROOTS = [
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
]

/** The definition of RFC 6962 section 2.1, word for word. */
function definedRoot(leaves: readonly Buffer[]): Buffer {
  if (leaves.length <= 1) return leaves[0] ?? EMPTY_ROOT
  let split = 1
  while (split * 2 < leaves.length) split *= 2
  return nodeHash(definedRoot(leaves.slice(0, split)), definedRoot(leaves.slice(split)))
}

/** RFC 9162 section 2.1.4.2. @returns whether the proof shows that the tree begins with the old one. */
function verifyConsistency(facts: {
  readonly oldSize: number
  readonly oldRoot: Uint8Array
  readonly size: number
  readonly root: Uint8Array
  readonly proof: readonly Uint8Array[]
}): boolean {
  const { oldSize, oldRoot, size, root, proof } = facts
  if (!(Number.isSafeInteger(oldSize) && Number.isSafeInteger(size) && oldSize >= 0 && oldSize <= size)) {
    return false
  }
  if (oldSize === size) return proof.length === 0 && isEqual(oldRoot, root)
  // Every tree begins with the empty tree.
  if (oldSize === 0) return proof.length === 0
  const path = [...proof]
  let node = oldSize - 1
  let last = size - 1
  while (node % 2 === 1) {
    node = Math.floor(node / 2)
    last = Math.floor(last / 2)
  }
  const first = node === 0 ? oldRoot : path.shift()
  if (first === undefined) return false
  let oldHash = first
  let newHash = first
  for (const sibling of path) {
    if (last === 0) return false
    if (node % 2 === 1 || node === last) {
      oldHash = nodeHash(sibling, oldHash)
      newHash = nodeHash(sibling, newHash)
      while (node % 2 === 0 && node !== 0) {
        node /= 2
        last = Math.floor(last / 2)
      }
    } else {
      newHash = nodeHash(newHash, sibling)
    }
    node = Math.floor(node / 2)
    last = Math.floor(last / 2)
  }
  return last === 0 && isEqual(oldHash, oldRoot) && isEqual(newHash, root)
}

function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0
}

function treeOf(leaves: readonly Buffer[]) {
  return {
    subtree: (height: number, index: number) =>
      definedRoot(leaves.slice(index * 2 ** height, (index + 1) * 2 ** height)),
  }
}

const leavesOf = (count: number) => Array.from({ length: count }, (_, i) => leafHash(Buffer.from(`${i}\n`)))
const hex = (hashes: readonly Uint8Array[]) =>
  hashes.map((one) => Buffer.from(one).toString('hex').slice(0, 8))
const flipped = (bytes: Uint8Array) => Buffer.from(bytes.map((byte, i) => (i === 7 ? byte ^ 1 : byte)))

test('roots and proofs are those of Certificate Transparency', () => {
  for (const [size, root] of ROOTS.entries()) {
    assert.equal(rootOf(LEAVES.slice(0, size)).toString('hex'), root)
  }
  const tree = treeOf(LEAVES)
  assert.deepEqual(hex(inclusionProof(tree, 0, 8)), ['96a296d2', '5f083f0a', '6b47aaf2'])
  assert.deepEqual(hex(inclusionProof(tree, 5, 8)), ['bc1a0643', 'ca854ea1', 'd37ee418'])
  assert.deepEqual(hex(inclusionProof(tree, 2, 3)), ['fac54203'])
  assert.deepEqual(hex(consistencyProof(tree, 1, 8)), ['96a296d2', '5f083f0a', '6b47aaf2'])
  assert.deepEqual(hex(consistencyProof(tree, 6, 8)), ['0ebc5d34', 'ca854ea1', 'd37ee418'])
  assert.deepEqual(hex(consistencyProof(tree, 2, 5)), ['5f083f0a', 'bc1a0643'])
})

test('the edge of a tree that grows leaf by leaf has the root of the definition, and stays as it is when its copy grows', () => {
  const leaves = leavesOf(70)
  const edge = new TreeEdge()
  for (const [i, leaf] of leaves.entries()) {
    edge.append(leaf.toString('latin1'))
    assert.deepEqual(edge.root(), definedRoot(leaves.slice(0, i + 1)))
  }
  const copy = edge.copy()
  copy.append(EMPTY_ROOT.toString('latin1'))
  assert.deepEqual([edge.size, copy.size, subtreeHeights(70)], [70, 71, [6, 2, 1]])
  assert.deepEqual(edge.root(), definedRoot(leaves))
  assert.deepEqual(copy.root(), definedRoot([...leaves, EMPTY_ROOT]))
})

test('a proof verifies, and nothing else does', () => {
  const sizes = fc.integer({ min: 1, max: 90 }).chain((size) =>
    fc.record({
      size: fc.constant(size),
      index: fc.integer({ min: 0, max: size - 1 }),
      oldSize: fc.integer({ min: 1, max: size }),
      at: fc.nat(),
    }),
  )
  const all = leavesOf(91)
  fc.assert(
    fc.property(sizes, ({ size, index, oldSize, at }) => {
      const tree = treeOf(all)
      const root = definedRoot(all.slice(0, size))
      const inclusion = {
        index,
        size,
        leafHash: all[index] as Buffer,
        proof: inclusionProof(tree, index, size),
        root,
      }
      const consistency = {
        oldSize,
        oldRoot: definedRoot(all.slice(0, oldSize)),
        size,
        root,
        proof: consistencyProof(tree, oldSize, size),
      }
      assert.ok(verifyInclusion(inclusion))
      assert.ok(verifyConsistency(consistency))
      for (const { proof } of [inclusion, consistency]) {
        const wrong = proof.map((hash, i) => (i === at % proof.length ? flipped(hash) : hash))
        for (const other of [
          [...proof, root],
          ...(proof.length > 0 ? [wrong, proof.slice(1), proof.slice(0, -1)] : []),
        ]) {
          if (proof === inclusion.proof) assert.ok(!verifyInclusion({ ...inclusion, proof: other }))
          else assert.ok(!verifyConsistency({ ...consistency, proof: other }))
        }
      }
      assert.ok(!verifyInclusion({ ...inclusion, root: flipped(root) }))
      assert.ok(!verifyInclusion({ ...inclusion, leafHash: flipped(inclusion.leafHash) }))
      assert.ok(!verifyInclusion({ ...inclusion, index: index === 0 ? size : index - 1 }))
      assert.ok(!verifyConsistency({ ...consistency, root: flipped(root) }))
      assert.ok(!verifyConsistency({ ...consistency, oldRoot: flipped(consistency.oldRoot) }))
      assert.ok(!verifyConsistency({ ...consistency, oldSize: oldSize + size }))
    }),
  )
})

test('a proof of nothing is refused', () => {
  const [leaf, root] = [leafHash(Buffer.of()), definedRoot(leavesOf(3))]
  for (const [index, size] of [
    [0, 0],
    [-1, 3],
    [3, 3],
    [0.5, 3],
    [0, Number.NaN],
    [0, 2 ** 60],
  ] as const) {
    assert.ok(!verifyInclusion({ index, size, leafHash: leaf, proof: [], root }))
  }
  assert.throws(() => inclusionProof(treeOf([]), 3, 3), /leaf 3 is not in a tree of 3/)
  assert.throws(() => consistencyProof(treeOf([]), 4, 3), /no proof from 4/)
  const empty = { oldSize: 0, oldRoot: EMPTY_ROOT, size: 3, root, proof: [] }
  assert.ok(verifyConsistency(empty))
  assert.ok(!verifyConsistency({ ...empty, proof: [leaf] }))
  assert.ok(!verifyConsistency({ ...empty, oldSize: 2, oldRoot: root }))
})

test('the log stands beside the trail, and its tiles where tlog-tiles says', () => {
  assert.equal(logDirectory('/data/audit.ndjson'), '/data/audit-log')
  assert.equal(logDirectory('/data/trail'), '/data/trail-log')
  assert.equal(checkpointFile('/data/audit-log'), '/data/audit-log/checkpoint')
  assert.equal(tilePath(0, 0), 'tile/0/000')
  assert.equal(tilePath(0, 1234067), 'tile/0/x001/x234/067')
  assert.equal(tilePath('entries', 1000, 5), 'tile/entries/x001/000.p/5')
  assert.equal(tilePath(2, 0, 1), 'tile/2/000.p/1')
})

test('a tree has the tiles that tlog-tiles says', () => {
  assert.deepEqual(partialTiles(70_000), [
    { level: 0, index: 273, width: 112 },
    { level: 1, index: 1, width: 17 },
    { level: 2, index: 0, width: 1 },
  ])
  assert.deepEqual(partialTiles(256), [{ level: 1, index: 0, width: 1 }])
  assert.deepEqual(partialTiles(0), [])
  assert.deepEqual([tileWidth(256, 0, 0), tileWidth(256, 0, 1), tileWidth(70_000, 0, 273)], [256, 0, 112])
})

test('hashes and proofs come from tiles as from the whole tree, and a damaged tile is named', (t) => {
  const directory = temporaryDirectory(t)
  const leaves = leavesOf(700)
  const levels: string[][] = []
  const edge = new TreeEdge((level, hash) => {
    levels[level] ??= []
    levels[level].push(hash)
  })
  for (const leaf of leaves) edge.append(leaf.toString('latin1'))
  const write = (size: number) => {
    for (let level = 0; hashesOnLevel(size, level) > 0; level++) {
      const hashes = levels[level]?.slice(0, hashesOnLevel(size, level)) ?? []
      for (let index = 0; index * TILE_WIDTH < hashes.length; index++) {
        const tile = hashes.slice(index * TILE_WIDTH, (index + 1) * TILE_WIDTH)
        const path = join(directory, tilePath(level, index, tile.length))
        mkdirSync(dirname(path), { recursive: true })
        writeFileSync(path, tile.join(''), 'latin1')
      }
    }
  }
  write(700)
  for (const size of [700, 600, 512, 300]) {
    if (size !== 700) write(size)
    const tree = new TileReader(directory, size)
    const root = rangeHash(tree, 0, size)
    assert.deepEqual(root, rootOf(leaves.slice(0, size)))
    assert.ok(
      verifyInclusion({
        index: 299,
        size,
        leafHash: leaves[299] as Buffer,
        proof: inclusionProof(tree, 299, size),
        root,
      }),
    )
  }
  const tree = new TileReader(directory, 650)
  assert.throws(() => tree.tile(0, 2), /tile\/0\/002\.p\/138 is missing/)
  assert.throws(() => tree.tile(0, 3), /a tree of 650 has no tile/)
  assert.throws(() => tree.subtree(8, 2), /a tree of 650 has no subtree 2 of height 8/)
  writeFileSync(join(directory, tilePath(0, 0)), Buffer.alloc(5 * HASH_BYTES))
  assert.throws(
    () => new TileReader(directory, 700).tile(0, 0),
    /tile\/0\/000 has 160 bytes, but must have 8192/,
  )
})

test('a writer of many tiles lets requests go first before every fourth tile', async (t) => {
  const directory = temporaryDirectory(t)
  mkdirSync(join(directory, 'tile'))
  const names = Array.from({ length: 40 }, (_, i) => `tile/${i}`)
  const { mock } = t.mock.method(Atomics, 'wait', () => 'timed-out')
  await new TileFiles(directory).writeSynced(names.map((name) => ({ name, bytes: Buffer.alloc(32) })))
  assert.equal(mock.callCount(), 10)
})
