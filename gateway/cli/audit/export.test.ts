import assert from 'node:assert/strict'
import fs, { cpSync, renameSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { checkpointFile } from '../../audit/seals/tiles.ts'
import { SealedTrail } from '../../evidence/sealed-trail.test-support.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { EXIT, UsageFault } from '../command.ts'
import { command } from './export.ts'

test('a checkpoint file without a checkpoint is a damaged log, and is named', async (t) => {
  const dir = temporaryDirectory(t)
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

test('a trail that is rotated after its files were listed is exported without a fault', async (t) => {
  const dir = temporaryDirectory(t)
  const { openSync } = fs
  const put = (open: typeof openSync) => {
    Object.assign(fs, { openSync: open })
    syncBuiltinESMExports()
  }
  t.after(() => put(openSync))
  const trail = new SealedTrail(join(dir, 'trail'))
  trail.start()
  await trail.seal()
  const running = join(dir, 'running')
  cpSync(join(dir, 'trail'), running, { recursive: true })
  await trail.rotate()
  trail.exchange()
  await trail.seal()
  const [{ path: closed } = assert.fail()] = trail.closed
  const file = join(running, 'audit.ndjson')
  put((path, ...rest) => {
    if (path === checkpointFile(join(running, 'audit-log'))) {
      put(openSync)
      renameSync(file, join(running, basename(closed)))
      cpSync(join(dir, 'trail'), running, { recursive: true })
    }
    return openSync(path, ...rest)
  })
  assert.equal(await command.run({ words: [file], flags: { to: join(dir, 'exported') } }), EXIT.good)
})
