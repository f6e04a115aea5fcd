import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { linesOf, requestLine, temporaryDirectory } from '../trail.test-support.ts'
import { SharedTrail } from './shared-trail.ts'
import { TrailFile } from './trail-file.ts'
import { TrailSink } from './trail-sink.ts'

/** Places of the words that a dead thread leaves behind. */
const LOCK = 0
const COMMIT_LOCK = 1
const DEAD = 77

/** A file with one request, and a thread that died while it was writing another. */
function afterDeath(t: TestContext, bytes: (line: string) => string) {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  const shared = SharedTrail.create()
  const sink = TrailSink.open(file)
  shared.setFile(sink.fd, 0)
  const trailFile = new TrailFile(shared, sink)
  assert.equal(trailFile.put([requestLine('a')]), undefined)
  const words = new Int32Array(shared.buffer)
  const line = requestLine('ö')
  shared.enter(0)
  shared.beforeWrite(Buffer.byteLength(line), 1)
  shared.leave()
  words[LOCK] = DEAD + 1
  fs.appendFileSync(file, bytes(line))
  return { file, trailFile, shared }
}

test('while another thread holds the lock, the first line is refused after 250 ms and later ones at once', (t) => {
  const { trailFile } = afterDeath(t, () => '')
  assert.match(String(trailFile.put([requestLine('b')])), /thread 77 has held the audit file for too long/)
  // The shortest of five, because a busy machine delays some.
  const waits = Array.from({ length: 5 }, () => {
    const start = performance.now()
    assert.ok(trailFile.put([requestLine('b')]))
    return performance.now() - start
  })
  assert.ok(Math.min(...waits) < 100)
})

test('uncommitted lines of a dead thread are cut off, and the next thread gets the commit lock', (t) => {
  const { file, trailFile, shared } = afterDeath(t, () => '')
  trailFile.release(DEAD)
  assert.ok(shared.takeCommitLock())
  trailFile.startCommit()
  assert.equal(trailFile.put([requestLine('b'), requestLine('c')]), undefined)
  assert.deepEqual([shared.open, linesOf(file).length], [3, 3])
  new Int32Array(shared.buffer)[COMMIT_LOCK] = DEAD + 1
  assert.equal(shared.takeCommitLock(), false)
  trailFile.release(DEAD)
  assert.deepEqual([shared.open, linesOf(file).length, shared.takeCommitLock()], [1, 1, true])
})

test('a thread that died with the commit lock before it stored its start loses no line', (t) => {
  const { file, trailFile, shared } = afterDeath(t, () => '')
  trailFile.release(DEAD)
  const words = new Int32Array(shared.buffer)
  words[COMMIT_LOCK] = DEAD + 1
  trailFile.release(DEAD)
  assert.deepEqual([shared.open, linesOf(file).length], [1, 1], 'the first commit')
  assert.ok(shared.takeCommitLock())
  trailFile.startCommit()
  assert.equal(trailFile.put([requestLine('b')]), undefined)
  shared.releaseCommitLock()
  words[COMMIT_LOCK] = DEAD + 1
  trailFile.release(DEAD)
  assert.deepEqual(
    [shared.open, linesOf(file).length, shared.takeCommitLock()],
    [2, 2, true],
    'a later commit',
  )
})

const DEATHS = [
  { moment: 'before it wrote', bytes: () => '', open: 1, lines: 1 },
  { moment: 'in the middle of a line', bytes: (line: string) => line.slice(0, 40), open: 1, lines: 1 },
  { moment: 'after the whole line', bytes: (line: string) => line, open: 2, lines: 2 },
]
for (const { moment, bytes, open, lines } of DEATHS) {
  test(`a thread that died with the lock ${moment} leaves a whole file and the right count`, (t) => {
    const { file, trailFile, shared } = afterDeath(t, bytes)
    trailFile.release(DEAD)
    assert.equal(shared.open, open)
    assert.equal(linesOf(file).length, lines)
    assert.equal(trailFile.put([requestLine('b')]), undefined)
    assert.deepEqual([shared.open, linesOf(file).length], [open + 1, lines + 1])
    assert.equal(shared.fileEnd().end, fs.statSync(file).size)
  })
}
