import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryDirectory } from '../audit/trail.test-support.ts'
import { headerLine } from '../storage/line-file.ts'
import { SealedTrail } from './sealed-trail.test-support.ts'
import { trailsOf } from './trail-files.ts'

/** A trail of two segments among the other files of a data directory. */
async function dataDirectory(t: TestContext): Promise<SealedTrail & { readonly dir: string }> {
  const dir = temporaryDirectory(t)
  const trail = new SealedTrail(dir)
  trail.start()
  await trail.rotate()
  trail.exchange()
  await trail.end()
  for (const name of ['revocations', 'webhooks', 'dpop-proofs'])
    fs.writeFileSync(join(dir, `${name}.ndjson`), headerLine({ name, version: 1 }))
  fs.writeFileSync(join(dir, 'revocations.reserve.ndjson'), ' '.repeat(65_536))
  fs.writeFileSync(join(dir, 'sessions-of-an-old-version.ndjson'), '{"sid":"a","until":1}\n')
  fs.writeFileSync(join(dir, 'audit.ndjson.lock'), '')
  // A full disk leaves such a file.
  fs.writeFileSync(join(dir, 'sessions.ndjson'), '')
  execFileSync('mkfifo', [join(dir, 'pipe.ndjson')])
  fs.mkdirSync(join(dir, 'directory.ndjson'))
  return Object.assign(trail, { dir })
}

const namesOf = async (dir: string) =>
  (await trailsOf([dir])).map(({ auditFile, segments }) => [auditFile.slice(dir.length + 1), segments.length])

test('in a data directory only the files with records are trails', async (t) => {
  const { dir } = await dataDirectory(t)
  assert.deepEqual(await namesOf(dir), [['audit.ndjson', 2]])
  fs.writeFileSync(join(dir, 'second.ndjson'), '{"type":"AUDIT_START"}\n')
  assert.deepEqual(await namesOf(dir), [
    ['audit.ndjson', 2],
    ['second.ndjson', 1],
  ])
})

test('a file with two names, by a link of either kind, is read once, and the other name is reported', async (t) => {
  const { dir, file, closed } = await dataDirectory(t)
  const whole = (await trailsOf([file]))[0]?.segments
  const alias = `${file}.20200101T000000000Z`
  for (const [link, target] of [
    [fs.symlinkSync, file],
    [fs.linkSync, file],
    [fs.symlinkSync, closed[0]?.path ?? ''],
  ] as const) {
    link(target, alias)
    for (const paths of [[dir], [file], [file, alias]]) {
      const [{ segments } = assert.fail()] = await trailsOf(paths)
      assert.deepEqual(
        segments.map(({ remark, ...one }) => one),
        whole,
      )
      const remarks = segments.flatMap(({ remark }) => remark ?? [])
      assert.deepEqual(remarks, [`is the same file as ${alias}: it is read once`])
    }
    fs.rmSync(alias)
  }
  const moved = join(dir, 'archive')
  const [{ path } = assert.fail()] = closed
  fs.renameSync(path, moved)
  fs.symlinkSync(moved, path)
  const [{ segments } = assert.fail()] = await trailsOf([file])
  assert.deepEqual(
    segments.map(({ remark }) => remark),
    ['is a symbolic link', undefined],
  )
})

test('a trail whose files were changed to look like others, or removed, is found by its log', async (t) => {
  const { dir, file, closed } = await dataDirectory(t)
  for (const path of [file, ...closed.map((one) => one.path)])
    fs.writeFileSync(path, headerLine({ name: 'revocations', version: 1 }))
  assert.deepEqual(await namesOf(dir), [['audit.ndjson', 2]])
  for (const path of [file, ...closed.map((one) => one.path)]) fs.rmSync(path)
  assert.deepEqual(await namesOf(dir), [['audit.ndjson', 0]])
  fs.rmSync(join(dir, 'audit-log'), { recursive: true })
  await assert.rejects(trailsOf([dir]), /holds no audit trail: no file named \*.ndjson/)
})
