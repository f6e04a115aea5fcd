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

test('while another thread holds the lock, the first line is refused after a second and later ones at once', (t) => {
  const { trailFile } = afterDeath(t, () => '')
  let sleeps = 0
  t.mock.method(performance, 'now', () => sleeps * 1.5)
  t.mock.method(Atomics, 'wait', () => {
    sleeps++
    return 'timed-out'
  })
  assert.match(String(trailFile.put([requestLine('b')])), /thread 77 has held the audit file for too long/)
  assert.equal(sleeps, Math.ceil(1000 / 1.5))
  assert.ok(trailFile.put([requestLine('b')]))
  assert.equal(sleeps, Math.ceil(1000 / 1.5))
})

test('a thread that finds the lock held by others in turns waits for as long as the file grows', (t) => {
  const { trailFile, shared } = afterDeath(t, () => '')
  const words = new Int32Array(shared.buffer)
  let sleeps = 0
  t.mock.method(performance, 'now', () => sleeps * 10)
  t.mock.method(Atomics, 'wait', () => {
    sleeps++
    if (sleeps % 100 === 0) {
      shared.beforeWrite(1, 0)
      shared.afterWrite()
    }
    if (sleeps === 1450) words[LOCK] = 0
    return 'timed-out'
  })
  assert.equal(trailFile.put([requestLine('b')]), undefined)
  assert.equal(sleeps, 1450)
})

test('a thread that joins during a rotation writes to the new file', (t) => {
  const directory = temporaryDirectory(t)
  const [before, next] = ['before', 'next'].map((name) => TrailSink.open(join(directory, name))) as [
    TrailSink,
    TrailSink,
  ]
  const owner = SharedTrail.create()
  owner.setFile(before.fd, 0)
  const joining = new SharedTrail(owner.buffer)
  const { fd } = joining
  t.mock.getter(joining, 'fd', () => {
    t.mock.restoreAll()
    owner.setFile(next.fd, 0)
    before.close()
    return fd
  })
  const trailFile = new TrailFile(joining)
  assert.equal(trailFile.put([requestLine('a')]), undefined)
  assert.equal(linesOf(join(directory, 'next')).length, 1)
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

test('a commit of a thread that has not written since a rotation begins in the new file', (t) => {
  const { file, trailFile, shared } = afterDeath(t, () => '')
  trailFile.release(DEAD)
  const joined = new TrailFile(new SharedTrail(shared.buffer))
  fs.renameSync(file, `${file}.1`)
  trailFile.moveTo(TrailSink.open(file)).close()
  assert.deepEqual(joined.startCommit(), { end: 0, open: 1, tornBytes: 0 })
})

test('in a file that was shortened by others a commit begins at its end, so that nobody reads beyond', (t) => {
  const { file, trailFile, shared } = afterDeath(t, () => '')
  trailFile.release(DEAD)
  fs.truncateSync(file)
  assert.ok(shared.takeCommitLock())
  trailFile.startCommit()
  assert.equal(trailFile.put([requestLine('b')]), undefined)
  assert.deepEqual([shared.committed().end, shared.fileEnd().end], [0, fs.statSync(file).size])
})
