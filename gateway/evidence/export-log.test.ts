import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { checkpointFile } from '../audit/seals/tiles.ts'
import { exportLog } from './export-log.ts'
import { SealedTrail } from './sealed-trail.test-support.ts'
import { trailsOf } from './trail-files.ts'

test('what is exported holds the records, and is for its owner alone as they are, whatever the umask', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'export-log-'))
  const umask = process.umask(0)
  t.after(() => {
    process.umask(umask)
    rmSync(dir, { recursive: true })
  })
  const trail = new SealedTrail(join(dir, 'trail'))
  trail.start()
  for (let i = 0; i < 200; i++) trail.exchange()
  await trail.end()
  const to = join(dir, 'exported')
  const [{ segments } = assert.fail()] = await trailsOf([trail.file])
  await exportLog(segments, trail.directory, to)
  const names = readdirSync(to, { recursive: true, encoding: 'utf8' })
  assert.ok(names.includes('tile/entries/000'))
  for (const name of ['.', ...names]) {
    const stats = statSync(join(to, name))
    assert.equal(stats.mode & 0o777, stats.isDirectory() ? 0o700 : 0o600, name)
  }
})

test('what is exported while a gateway seals more is one checkpoint with its tiles', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'export-log-'))
  t.after(() => rmSync(dir, { recursive: true }))
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
