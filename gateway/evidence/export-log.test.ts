import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { HASH_BYTES } from '../audit/seals/hashes.ts'
import { checkpointFile, tilePath } from '../audit/seals/tiles.ts'
import { temporaryDirectory } from '../audit/trail.test-support.ts'
import { exportLog } from './export-log.ts'
import { SealedTrail } from './sealed-trail.test-support.ts'
import { trailsOf } from './trail-files.ts'

test('what is exported holds the records, and only its owner can read it, whatever the umask', async (t) => {
  const umask = process.umask(0)
  t.after(() => process.umask(umask))
  const { trail, to, segments } = await sealed(t)
  await exportLog(segments, trail.directory, to)
  const names = readdirSync(to, { recursive: true, encoding: 'utf8' })
  assert.ok(names.includes('tile/entries/000'))
  for (const name of ['.', ...names]) {
    const stats = statSync(join(to, name))
    assert.equal(stats.mode & 0o777, stats.isDirectory() ? 0o700 : 0o600, name)
  }
})

test('what is exported while a gateway seals more is one checkpoint with its tiles', async (t) => {
  const dir = temporaryDirectory(t)
  const trail = new SealedTrail(join(dir, 'trail'))
  trail.start()
  trail.exchange()
  await trail.seal()
  const running = join(dir, 'running')
  cpSync(join(dir, 'trail'), running, { recursive: true })
  trail.exchange()
  await trail.seal()
  const to = join(dir, 'exported')
  const [{ segments } = assert.fail()] = await trailsOf([join(running, 'audit.ndjson')])
  const { checkpoint } = await exportLog(segments, join(running, 'audit-log'), to, () =>
    cpSync(join(dir, 'trail'), running, { recursive: true }),
  )
  assert.deepEqual([checkpoint.size, trail.sealedSize], [3, 6])
  assert.deepEqual(readFileSync(checkpointFile(to)), trail.checkpoints[0])
})

test('a log is not exported over itself, also through a link', async (t) => {
  const { trail, to: link, segments } = await sealed(t)
  const before = readdirSync(trail.directory, { recursive: true })
  symlinkSync(trail.directory, link)
  for (const to of [trail.directory, link])
    await assert.rejects(exportLog(segments, trail.directory, to), /is the log itself: export to another/)
  assert.deepEqual(readdirSync(trail.directory, { recursive: true }), before)
})

test('nothing is exported when a tile over the lines is missing', async (t) => {
  const { trail, to, segments } = await sealed(t)
  const upper = join(trail.directory, tilePath(1, 0, 1))
  rmSync(upper)
  await assert.rejects(exportLog(segments, trail.directory, to), {
    message: `${upper} is missing or was cut: run "audit verify"`,
  })
  assert.ok(!existsSync(to))
})

test('nothing is exported when a tile over the lines does not lead to the signed root', async (t) => {
  const { trail, to, segments } = await sealed(t)
  const upper = join(trail.directory, tilePath(1, 0, 1))
  writeFileSync(upper, Buffer.alloc(statSync(upper).size, 7))
  await assert.rejects(exportLog(segments, trail.directory, to), /does not lead to the signed root/)
  assert.ok(!existsSync(to))
})

test('a line and its tile that were forged to match are not exported', async (t) => {
  const { trail, to, segments } = await sealed(t)
  const tile = join(trail.directory, tilePath(0, 0))
  const forged = `${trail.lines[1]?.replace('"GET"', '"PUT"')}`
  assert.notEqual(forged, trail.lines[1])
  const bytes = readFileSync(tile)
  createHash('sha256').update('\0').update(forged).digest().copy(bytes, HASH_BYTES)
  writeFileSync(tile, bytes)
  writeFileSync(trail.file, trail.lines.with(1, forged).join(''))
  await assert.rejects(exportLog(segments, trail.directory, to), /tile\/0\/000 does not lead/)
  assert.ok(!existsSync(to))
})

test('tiles of pruned lines may be missing from what is exported', async (t) => {
  const { trail, to } = await sealed(t)
  await trail.rotate()
  trail.exchanges(200)
  await trail.prune()
  const [{ segments } = assert.fail()] = await trailsOf([trail.file])
  await exportLog(segments, trail.directory, to)
  assert.deepEqual(
    [tilePath(0, 0), tilePath(0, 1), tilePath(1, 0, 3)].map((path) => existsSync(join(to, path))),
    [false, true, true],
  )
})

/** A trail of more than one whole tile. */
async function sealed(t: TestContext) {
  const dir = temporaryDirectory(t)
  const trail = new SealedTrail(join(dir, 'trail'))
  trail.start()
  trail.exchanges(200)
  await trail.end()
  const [{ segments } = assert.fail()] = await trailsOf([trail.file])
  return { trail, to: join(dir, 'exported'), segments }
}
