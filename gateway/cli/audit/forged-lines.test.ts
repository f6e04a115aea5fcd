import assert from 'node:assert/strict'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { SealedTrail } from '../../evidence/sealed-trail.test-support.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { countersign } from '../program.test-support.ts'

async function said(...words: string[]): Promise<string[]> {
  const { stdout, stderr } = await countersign(['audit', ...words])
  return `${stdout}\n${stderr}`.split('\n')
}

test('neither the name of a file nor a value of a record can add a line to the output', async (t) => {
  const dir = temporaryDirectory(t)
  const trail = new SealedTrail(join(dir, 'one'))
  trail.start()
  trail.exchange()
  trail.stop('x\nnothing needs attention')
  trail.start()
  await trail.end()
  const report = await said('report', '--day', '2026-11-20', trail.file)
  assert.ok(
    report.some((line) => line.includes('x\\u000anothing needs attention')),
    report.join('\n'),
  )

  writeFileSync(`${trail.file}-20261122\nproven\n.1`, 'no record\n')
  const verified = await said('verify', '--key', trail.vkey, trail.file)
  assert.deepEqual([verified.includes('NOT PROVEN'), verified.includes('proven')], [true, false])

  const renamed = join(dir, 'one', 'a\nproven\n.ndjson')
  renameSync(trail.file, renamed)
  for (const words of [
    ['verify', '--key', trail.vkey],
    ['report', '--day', '2026-11-20'],
  ]) {
    assert.ok(!(await said(...words, renamed)).includes('proven'), words.join(' '))
  }
  const unreadable = await said('verify', '--key', trail.vkey, join(dir, 'none\nproven\n'))
  assert.ok(!unreadable.includes('proven'), unreadable.join('\n'))
})
