import assert from 'node:assert/strict'
import { utimesSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { BackgroundThread } from '../background-thread.ts'
import { checkpointFile } from '../seals/tiles.ts'
import type { AttestJob, AttestNews } from './attest-thread.ts'
import { makeSealedLog } from './sealed-log.test-support.ts'
import { startTestWitness } from './test-witness.test-support.ts'

test('a checkpoint that could not be read at first is cosigned before the thread ends', async (t) => {
  const directory = temporaryDirectory(t)
  const log = makeSealedLog(directory)
  const file = checkpointFile(directory)
  const witness = await startTestWitness({ name: 'w.example/late', logs: [log.vkey] })
  t.after(() => witness.server.close())
  // A read that fails for a moment, such as for want of descriptors, changes neither the inode nor the time.
  const keepTime = () => utimesSync(file, 1, 1)
  writeFileSync(file, 'no checkpoint')
  keepTime()

  const unread = Promise.withResolvers<string>()
  const job: AttestJob = {
    directory,
    witnesses: {
      quorum: { least: 1, members: [witness.vkey] },
      everyMs: 1,
      members: [{ url: witness.url, key: witness.vkey, ca: undefined }],
    },
    stamps: undefined,
  }
  const thread = new BackgroundThread<number, AttestNews>({
    script: 'witness/attest-thread',
    job,
    onNews: (news) => news.type === 'witness-fault' && unread.resolve(news.cause),
    onFault: unread.reject,
  })
  thread.start()
  assert.match(await unread.promise, /^the checkpoint .* cannot be read: /)
  log.grow(3)
  keepTime()
  await thread.finish(60_000, 60_000)
  assert.equal(witness.sizeOf(log.key.verifier.name), 3)
})

test('a checkpoint that cannot be read is a fault of the stamps where there are no witnesses', async (t) => {
  const directory = temporaryDirectory(t)
  // The thread does not keep the process alive.
  const alive = setTimeout(() => {}, 60_000)
  t.after(() => clearTimeout(alive))
  writeFileSync(checkpointFile(directory), 'no checkpoint')
  const news = Promise.withResolvers<AttestNews>()
  const stamps = { url: 'http://127.0.0.1:1', everyMs: 1, authorities: [], ca: undefined, policy: undefined }
  const job: AttestJob = { directory, witnesses: undefined, stamps }
  const thread = new BackgroundThread<number, AttestNews>({
    script: 'witness/attest-thread',
    job,
    onNews: news.resolve,
    onFault: news.reject,
  })
  thread.start()
  assert.equal((await news.promise).type, 'stamp-fault')
  await thread.finish(0, 60_000)
})
