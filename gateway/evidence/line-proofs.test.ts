import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryDirectory } from '../audit/trail.test-support.ts'
import { proveLines } from './line-proofs.ts'
import { SealedTrail } from './sealed-trail.test-support.ts'

test('lines of several tiles, one of them twice, have their own proofs in the order in which they were given', async (t) => {
  const trail = await trailOf(t, 300)
  const at = [599, 0, 256, 1, 256]
  const proofs = proveLines(
    trail.directory,
    at.map((index) => Buffer.from(`${trail.lines[index]}`)),
  )
  assert.deepEqual(
    proofs.map((proof) => /^index (\d+)$/m.exec(proof)?.[1]),
    at.map(String),
  )
})

test('a record that is not in the log is an error, also beside records that are in the log', async (t) => {
  const trail = await trailOf(t, 1)
  const lines = [`${trail.lines[1]}`, `${trail.lines[1]}`.replace('GET', 'PUT')].map((line) =>
    Buffer.from(line),
  )
  assert.throws(() => proveLines(trail.directory, lines), /a record is not in the log/)
})

test('each hash of a log is read once for all records of a request', async (t) => {
  const trail = await trailOf(t, 500)
  const lines = trail.lines.slice(0, 1000).map((line) => Buffer.from(line))
  let searches = 0
  const { indexOf } = Buffer.prototype
  t.mock.method(Buffer.prototype, 'indexOf', function (this: Buffer, ...args: Parameters<typeof indexOf>) {
    if (args[0] instanceof Uint8Array && args[0].length === 32) searches++
    return indexOf.apply(this, args)
  })
  assert.equal(proveLines(trail.directory, lines).length, 1000)
  assert.ok(searches <= trail.lines.length, `${searches} searches for 1,000 records`)
})

async function trailOf(t: TestContext, exchanges: number): Promise<SealedTrail> {
  const dir = temporaryDirectory(t)
  const trail = new SealedTrail(join(dir, 'trail'))
  trail.start()
  trail.exchanges(exchanges)
  await trail.end()
  return trail
}
