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
const TURN = 2
const DEAD = 77

/** A file with one request, and a thread that died while it was writing another. */
function afterDeath(t: TestContext, bytes: (line: string) => string) {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  const shared = SharedTrail.create({ seats: 0, seatBytes: 8 })
  const sink = TrailSink.open(file)
  shared.setFile(sink.fd, 0)
  const trailFile = new TrailFile({ shared, sink })
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

test('while another holds the lock the first line is refused after 250 ms, later ones at once', (t) => {
  const { trailFile } = afterDeath(t, () => '')
  assert.match(String(trailFile.put([requestLine('b')])), /thread 77 has held the audit file for too long/)
  // The shortest of some: a machine under load takes its time by itself.
  const waits = Array.from({ length: 5 }, () => {
    const start = performance.now()
    assert.ok(trailFile.put([requestLine('b')]))
    return performance.now() - start
  })
  assert.ok(Math.min(...waits) < 100)
})

test('lines that a dead thread had not committed are cut off, and the next thread gets the turn', (t) => {
  const { file, trailFile, shared } = afterDeath(t, () => '')
  trailFile.release(DEAD)
  assert.ok(shared.takeTurn())
  trailFile.startTurn()
  assert.equal(trailFile.put([requestLine('b'), requestLine('c')]), undefined)
  assert.deepEqual([shared.open, linesOf(file).length], [3, 3])
  new Int32Array(shared.buffer)[TURN] = DEAD + 1
  assert.equal(shared.takeTurn(), false)
  trailFile.release(DEAD)
  assert.deepEqual([shared.open, linesOf(file).length, shared.takeTurn()], [1, 1, true])
})

test('a thread that died with the turn before it noted its start loses no line', (t) => {
  const { file, trailFile, shared } = afterDeath(t, () => '')
  trailFile.release(DEAD)
  const words = new Int32Array(shared.buffer)
  words[TURN] = DEAD + 1
  trailFile.release(DEAD)
  assert.deepEqual([shared.open, linesOf(file).length], [1, 1], 'the first turn of all')
  assert.ok(shared.takeTurn())
  trailFile.startTurn()
  assert.equal(trailFile.put([requestLine('b')]), undefined)
  shared.passTurn()
  words[TURN] = DEAD + 1
  trailFile.release(DEAD)
  assert.deepEqual([shared.open, linesOf(file).length, shared.takeTurn()], [2, 2, true], 'a later one')
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
    assert.equal(shared.here().end, fs.statSync(file).size)
  })
}
