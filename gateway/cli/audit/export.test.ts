import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { checkpointFile } from '../../audit/seals/tiles.ts'
import { SealedTrail } from '../../evidence/sealed-trail.test-support.ts'
import { UsageFault } from '../command.ts'
import { command } from './export.ts'

test('a checkpoint that is none is a damaged log, and is named', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'export-'))
  t.after(() => rmSync(dir, { recursive: true }))
  const trail = new SealedTrail(join(dir, 'trail'))
  trail.exchange()
  await trail.end()
  const file = checkpointFile(trail.directory)
  writeFileSync(file, 'no note')
  const run = async () => command.run({ words: [trail.file], flags: { to: join(dir, 'exported') } })
  await assert.rejects(run, (error: Error) => {
    assert.ok(!(error instanceof UsageFault))
    return error.message.includes(file)
  })
})
