import assert from 'node:assert/strict'
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { LONGER } from '../../e2e/long-runs.ts'
import { sealedDisk } from '../sealed-disk.test-support.ts'
import { pruneTiles } from '../segments/prune-segments.ts'
import { temporaryDirectory } from '../trail.test-support.ts'
import { WITNESSED_FILE } from '../witness/witnessed-checkpoint.ts'
import { firstUnsynced, LateTiles } from './late-tiles.ts'
import { checkSeal } from './sealed-trail.test-support.ts'
import { TileFiles } from './tile-files.ts'
import { hashesIn, TILE_WIDTH, TileReader, tilePath } from './tiles.ts'
import { rootOf, TILE_HEIGHT } from './tree-edge.ts'

const ids = (count: number, name = 'request') => Array.from({ length: count }, (_, i) => `${name}-${i}`)

/** Full tiles of leaves that are missing or wrong. */
function badTiles(log: string, size: number): number[] {
  const tree = new TileReader(log, size)
  return [...Array(Math.floor(size / TILE_WIDTH)).keys()].filter((index) => {
    const path = join(log, tilePath(0, index))
    const isThere = statSync(path, { throwIfNoEntry: false })?.isFile()
    const bytes = isThere ? readFileSync(path) : Buffer.of()
    return !rootOf(hashesIn(bytes)).equals(tree.subtree(TILE_HEIGHT, index))
  })
}

/** A power cut destroys two full tiles. */
async function afterPowerCut(t: TestContext, faults: string[] = []) {
  const { start, startIn, cut, key } = sealedDisk(t, (fault) => faults.push(fault))
  const { write, seal } = start()
  await write(...ids(100))
  await seal()
  await write(...ids(500))
  await seal()
  const { image } = cut()
  assert.deepEqual(badTiles(join(image, 'audit-log'), 600), [0, 1])
  return { image, file: join(image, 'audit.ndjson'), log: join(image, 'audit-log'), startIn, key }
}

test('tiles that a power cut has destroyed are made again from the trail, before anything else is sealed', async (t) => {
  const { image, file, log, startIn, key } = await afterPowerCut(t)
  const { write, seal } = startIn(image)
  await write('next')
  await seal()
  assert.equal((await checkSeal(file, key)).checkpoint.size, 601)
  assert.deepEqual([badTiles(log, 601), existsSync(join(log, 'unsynced-tiles'))], [[], false])
})

test('tiles are made again from lines in closed segments, one of them compressed', async (t) => {
  const { image, file, log, startIn } = await afterPowerCut(t)
  const lines = readFileSync(file, 'utf8').split(/(?<=\n)/)
  writeFileSync(`${file}.20260102T000000001Z.zst`, zstdCompressSync(lines.slice(0, 300).join('')))
  writeFileSync(`${file}.20260102T000000002Z`, lines.slice(300, 550).join(''))
  writeFileSync(file, lines.slice(550).join(''))
  const { write, seal } = startIn(image)
  await write('next')
  await seal()
  assert.equal(readFileSync(join(log, 'checkpoint'), 'utf8').split('\n')[1], '601')
  assert.deepEqual(badTiles(log, 601), [])
})

test('tiles whose lines are gone or changed are named, and the tree goes on', async (t) => {
  const faults: string[] = []
  const { image, file, log, startIn } = await afterPowerCut(t, faults)
  const lines = readFileSync(file, 'utf8').split(/(?<=\n)/)
  const changed = [...lines.slice(0, 300), (lines[300] as string).replace('GET', 'PUT'), ...lines.slice(301)]
  writeFileSync(file, changed.join(''))
  const { write, seal } = startIn(image)
  await write('next')
  await seal()
  assert.deepEqual(badTiles(log, 601), [1])
  assert.deepEqual(faults, [
    'the disk has not kept tile/0/001, and the trail cannot replace them: their lines are missing',
  ])
})

test('lines are sealed once after a power cut that has destroyed the last tiles, all of them full', async (t) => {
  for (const [first, second] of [
    [256, 0],
    [300, 212],
    [256, 512],
  ] as const) {
    const { start, startIn, cut, key } = sealedDisk(t)
    const { write, seal } = start()
    await write(...ids(first))
    await seal()
    await write(...ids(second, 'more'))
    await seal()
    const { image } = cut()
    const next = startIn(image)
    await next.write('next')
    await next.seal()
    assert.equal((await checkSeal(next.file, key)).checkpoint.size, first + second + 1)
    assert.deepEqual(badTiles(next.log, first + second), [])
  }
})

test('a trail that cannot be read is named, too', async (t) => {
  const faults: string[] = []
  const { image, file, log, startIn } = await afterPowerCut(t, faults)
  writeFileSync(`${file}.20260102T000000001Z.zst`, 'no zstd')
  const { write, seal } = startIn(image)
  await write('next')
  await seal()
  assert.deepEqual(badTiles(log, 601), [0, 1])
  assert.match(String(faults), /^the disk has not kept tile\/0\/000, tile\/0\/001, .*1Z.zst cannot be read/)
})

test('after 40 seconds tiles are synced with the next checkpoint, and a power cut leaves them', async (t) => {
  const { start, cut, key } = sealedDisk(t)
  const { write, seal, pass, log } = start()
  await write(...ids(600))
  await seal()
  assert.equal(readFileSync(join(log, 'unsynced-tiles'), 'utf8'), '0\n')
  await write(...ids(1))
  await seal()
  assert.ok(existsSync(join(log, 'unsynced-tiles')))
  pass(40_000)
  await write(...ids(1))
  await seal()
  assert.ok(!existsSync(join(log, 'unsynced-tiles')))
  const { image } = cut()
  assert.equal((await checkSeal(join(image, 'audit.ndjson'), key)).checkpoint.size, 602)
  assert.deepEqual(badTiles(join(image, 'audit-log'), 602), [])
})

test('the tiles of a whole burst are synced with one checkpoint', async (t) => {
  const { start } = sealedDisk(t)
  const { write, seal, pass, log } = start()
  await write(...ids(33_024))
  await seal()
  pass(40_000)
  await write(...ids(1))
  await seal()
  assert.ok(!existsSync(join(log, 'unsynced-tiles')))
})

test('tiles that end behind what the witnesses have seen are not pruned', async (t) => {
  const { start } = sealedDisk(t)
  const { write, seal, pass, log } = start()
  await write(...ids(256))
  await seal()
  copyFileSync(join(log, 'checkpoint'), join(log, WITNESSED_FILE))
  await write(...ids(300))
  await seal()
  pass(40_000)
  await write(...ids(44))
  await seal()
  assert.ok(!existsSync(join(log, 'unsynced-tiles')))
  assert.equal(pruneTiles(log, 512), 1)
  assert.deepEqual(
    ['tile/0/000', 'tile/0/001'].map((tile) => existsSync(join(log, tile))),
    [false, true],
  )
  rmSync(join(log, WITNESSED_FILE))
  assert.equal(pruneTiles(log, 512), 1)
  assert.equal(existsSync(join(log, 'tile/0/001')), false)
})

test('the end syncs all tiles, however many', async (t) => {
  const { start, cut } = sealedDisk(t)
  const { write, sealer, log } = start()
  await write(...ids(40 * TILE_WIDTH))
  await sealer.finish()
  assert.ok(!existsSync(join(log, 'unsynced-tiles')))
  assert.deepEqual(badTiles(join(cut().image, 'audit-log'), 40 * TILE_WIDTH), [])
})

test('the next start syncs tiles that a killed process has left, however many', async (t) => {
  const { start, cut } = sealedDisk(t)
  const { write, seal, log } = start()
  await write(...ids(40 * TILE_WIDTH))
  await seal()
  const next = start()
  await next.write('next')
  await next.seal()
  assert.ok(!existsSync(join(log, 'unsynced-tiles')))
  assert.deepEqual(badTiles(join(cut().image, 'audit-log'), 40 * TILE_WIDTH + 1), [])
})

test('what a failed sync has dropped is written again', async (t) => {
  const { start, cut, fail, seals } = sealedDisk(t)
  const { write, seal, pass } = start()
  await write(...ids(600))
  await seal()
  pass(40_000)
  await write(...ids(1))
  fail(true)
  await assert.rejects(seal(), /EIO/)
  await seal()
  assert.deepEqual(seals, [600, 601])
  assert.deepEqual(badTiles(join(cut().image, 'audit-log'), 601), [])
})

test('a directory that is removed while tiles wait is begun again, with the mark', async (t) => {
  const faults: string[] = []
  const { start } = sealedDisk(t, (fault) => faults.push(fault))
  const { write, seal, log, pass } = start()
  await write(...ids(600))
  await seal()
  rmSync(log, { recursive: true })
  await write(...ids(300, 'more'))
  await seal()
  assert.equal(readFileSync(join(log, 'unsynced-tiles'), 'utf8'), '2\n')
  pass(40_000)
  await write('last')
  await seal()
  assert.deepEqual([faults.length, readdirSync(join(log, 'tile/0'))], [1, ['002', '003.p']])
})

test('tiles that the disk may not have are not pruned, so after a crash only lost tiles are missing', async (t) => {
  const { start } = sealedDisk(t)
  const { write, seal, pass, log } = start()
  await write(...ids(600))
  await seal()
  assert.equal(pruneTiles(log, 512), 0)
  assert.ok(existsSync(join(log, tilePath(0, 0))))
  pass(40_000)
  await write('later')
  await seal()
  await write('last')
  await seal()
  assert.deepEqual([existsSync(join(log, 'unsynced-tiles')), pruneTiles(log, 512)], [false, 2])
})

test('a lost tile is made again also where the tiles before it are gone with their lines', async (t) => {
  const faults: string[] = []
  const { start } = sealedDisk(t, (fault) => faults.push(fault))
  const { write, seal, log, trail, file } = start()
  await write(...ids(300))
  const closed = `${file}.20260102T000000001Z`
  renameSync(file, closed)
  trail.reopen()
  await write(...ids(800, 'more'))
  await seal()
  rmSync(closed)
  for (const index of [0, 3]) rmSync(join(log, tilePath(0, index)))
  const next = start()
  await next.write('next')
  await next.seal()
  assert.deepEqual(badTiles(log, 1024), [0])
  assert.deepEqual(faults, [
    'the disk has not kept tile/0/000, and the trail cannot replace them: their lines are missing',
  ])
})

test('wherever the power is cut and whatever of the tiles survives, the next start has all of them', async (t) => {
  const count = fc.oneof(fc.integer({ min: 1, max: 600 }), fc.constantFrom(TILE_WIDTH, 2 * TILE_WIDTH))
  const counts = fc.array(count, { minLength: 1, maxLength: 4 })
  const chances = fc.array(fc.nat(), { minLength: 8, maxLength: 64 })
  await fc.assert(
    fc.asyncProperty(counts, fc.nat(), chances, fc.boolean(), async (batches, moment, numbers, waits) => {
      await t.test('a power cut', async (t) => {
        const { start, startIn, cut, disk, key } = sealedDisk(t)
        const { write, seal, pass, trail, file } = start()
        for (const [i, count] of batches.entries()) {
          await write(...ids(count, `batch-${i}`))
          await seal()
          if (waits) pass(40_000)
          if (count % 5 === 0) {
            renameSync(file, `${file}.20260102T00000000${i}Z`)
            trail.reopen()
          }
        }
        let drawn = 0
        const chance = (bound: number) => (numbers[drawn++ % numbers.length] as number) % bound
        const { image, seen } = cut(chance, moment % disk.moments.length)
        const again = startIn(image)
        await again.write('next')
        await again.seal()
        const { checkpoint } = await checkSeal(again.file, key)
        assert.ok(checkpoint.size > seen)
        assert.deepEqual(badTiles(again.log, checkpoint.size), [])
      })
    }),
    { numRuns: 15 * LONGER },
  )
})

test('a tile that cannot be looked up stays unsynced; a pruned tile needs no sync', (t) => {
  const log = temporaryDirectory(t)
  const late = new LateTiles(new TileFiles(log))
  const bytes = Buffer.alloc(TILE_WIDTH * 32)
  late.write(
    [0, 1].map((index) => ({ index, bytes })),
    0,
  )
  rmSync(join(log, tilePath(0, 0)))
  const path = join(log, tilePath(0, 1))
  rmSync(path)
  symlinkSync(path, path)
  assert.throws(() => late.sync(Number.POSITIVE_INFINITY), { code: 'ELOOP' })
  assert.equal(firstUnsynced(log), 0)
  rmSync(path)
  assert.equal(late.sync(Number.POSITIVE_INFINITY), false)
  assert.equal(firstUnsynced(log), undefined)
})
