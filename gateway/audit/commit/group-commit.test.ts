import assert from 'node:assert/strict'
import fs from 'node:fs'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import {
  endOf,
  linesOf,
  requestLine,
  responseLine,
  smallDisk,
  temporaryDirectory,
  trailIn,
  typesOf,
  unpaired,
} from '../trail.test-support.ts'
import { Commit } from './commit.ts'

const NEVER = 'not called yet'

/** What has become of a line so far. */
function fateOf(outcome: unknown): { value: Error | undefined | typeof NEVER } {
  assert.ok(outcome instanceof Commit)
  const fate: { value: Error | undefined | typeof NEVER } = { value: NEVER }
  outcome.whenDone((error) => {
    fate.value = error
  })
  return fate
}

test('the lines of one turn of the event loop are one write at its end, and all callers are called in that turn', async (t) => {
  const { file, trail, records } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  const [a, b] = [requestLine('a'), requestLine('b')]
  const commit = trail.append(a)
  assert.equal(trail.append(b), commit)
  assert.equal(trail.settle(responseLine(a)), commit)
  const fate = fateOf(commit)
  assert.deepEqual([fs.readFileSync(file, 'utf8'), fate.value, records], ['', NEVER, []])
  // This is queued after the first line, so it runs after the write, in the same turn.
  const seen = await new Promise((resolve) => setImmediate(() => resolve([fate.value, disk.writes])))
  assert.deepEqual(seen, [undefined, 1])
  assert.equal(fs.readFileSync(file, 'utf8'), a + b + responseLine(a))
  assert.deepEqual(records, ['API_REQUEST', 'API_REQUEST', 'API_RESPONSE'])
  assert.notEqual(trail.append(requestLine('c')), commit)
  await turn()
  assert.equal(disk.writes, 2)
  assert.equal(trail.writable, true)
})

test("records that are made in a commit's callback belong to the next commit", async (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  const a = requestLine('a')
  const first = trail.append(a)
  assert.ok(first instanceof Commit)
  let second: unknown
  first.whenDone(() => {
    second = trail.settle(responseLine(a))
    assert.equal(linesOf(file).length, 1)
  })
  await turn()
  assert.notEqual(second, first)
  assert.equal(await endOf(second as Commit), undefined)
  assert.deepEqual(typesOf(linesOf(file)), ['API_REQUEST', 'API_RESPONSE'])
})

test('lines that together exceed the buffer are written whole', async (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  const ids = Array.from({ length: 2000 }, (_, i) => `ü-${i}`)
  const ends = await Promise.all(ids.map((id) => endOf(trail.append(requestLine(id)))))
  assert.ok(ends.every((error) => error === undefined))
  assert.deepEqual(
    linesOf(file).map(({ requestId }) => requestId),
    ids,
  )
  assert.ok(fs.statSync(file).size > 256 * 1024)
  assert.equal(disk.writes, 1)
})

test('when not all lines fit, none stays in the file: requests are refused, responses and whole pairs stay pending', async (t) => {
  const { file, trail, faults, records } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  const [known, gone, refused] = [requestLine('known'), requestLine('gone'), requestLine('refused')]
  await endOf(trail.append(known))
  const before = fs.readFileSync(file, 'utf8')
  disk.roomBytes = refused.length + 60
  const fates = [
    trail.append(refused),
    trail.append(gone),
    trail.settle(responseLine(known)),
    trail.settle(responseLine(gone)),
  ].map(fateOf)
  await turn()
  for (const { value } of fates) assert.match(String(value), /ENOSPC/)
  assert.equal(fs.readFileSync(file, 'utf8'), before)
  assert.deepEqual([trail.writable, faults.length, records.length], [false, 1, 1])
  disk.roomBytes = Number.POSITIVE_INFINITY
  assert.equal(trail.recheck(), true)
  const lines = linesOf(file)
  assert.deepEqual(unpaired(lines), [])
  assert.deepEqual(
    lines.map(({ requestId, reason, refused: count }) => requestId ?? reason ?? count),
    ['known', 'gone', 'known', 'gone', 'write failed: ENOSPC', 1],
  )
  assert.deepEqual(lines.map(({ open }) => open).slice(-2), [0, 0])
})

test('lines that are partly in an append-only file are completed, and their refused requests get a response', async (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  const known = requestLine('known')
  await endOf(trail.append(known))
  const lineBytes = Buffer.byteLength(requestLine('a'))
  Object.assign(disk, { roomBytes: lineBytes + 30, canCut: false })
  const fates = [
    trail.append(requestLine('a')),
    trail.append(requestLine('b')),
    trail.settle(responseLine(known)),
  ].map(fateOf)
  await turn()
  for (const { value } of fates) assert.match(String(value), /ENOSPC/)
  assert.equal(fs.statSync(file).size, Buffer.byteLength(known) + lineBytes + 30)
  disk.roomBytes = 7
  assert.equal(trail.recheck(), false)
  disk.roomBytes = Number.POSITIVE_INFINITY
  assert.equal(trail.recheck(), true)
  const lines = linesOf(file)
  assert.deepEqual(unpaired(lines), [])
  assert.deepEqual(
    lines.map(({ requestId, type, recovered }) => [requestId ?? type, recovered]),
    [
      ['known', undefined],
      ['a', undefined],
      ['b', undefined],
      ['known', undefined],
      ['a', true],
      ['b', true],
      ['AUDIT_STOP', undefined],
      ['AUDIT_START', undefined],
    ],
  )
  assert.deepEqual([lines[6]?.open, lines[7]?.open, lines[7]?.refused], [0, 0, 2])
})

test('lines that wait at a rotation go to the old file, before its AUDIT_STOP', async (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  const fate = fateOf(trail.append(requestLine('a')))
  fs.renameSync(file, `${file}.1`)
  trail.reopen()
  assert.equal(fate.value, undefined)
  const old = linesOf(`${file}.1`)
  assert.deepEqual([typesOf(old), old[1]?.open], [['API_REQUEST', 'AUDIT_STOP'], 1])
  await turn()
  assert.deepEqual([typesOf(linesOf(file)), linesOf(file)[0]?.open], [['AUDIT_START'], 1])
})

test('after a rotation without room for AUDIT_START, responses stay pending and requests are refused', async (t) => {
  const { file, trail, faults } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  const a = requestLine('a')
  const first = trail.append(a)
  assert.ok(first instanceof Commit)
  const fates: ReturnType<typeof fateOf>[] = []
  first.whenDone(() => {
    fates.push(fateOf(trail.append(requestLine('b'))), fateOf(trail.settle(responseLine(a))))
    // Room for AUDIT_STOP and a part of AUDIT_START; the waiting lines would fit.
    disk.roomBytes = 120
    disk.canCut = false
  })
  fs.renameSync(file, `${file}.1`)
  trail.reopen()
  await turn()
  assert.equal(fates.length, 2)
  for (const { value } of fates) assert.match(String(value), /ENOSPC/)
  assert.ok(faults.length > 0)
  disk.roomBytes = Number.POSITIVE_INFINITY
  assert.equal(trail.recheck(), true)
  const lines = [...linesOf(`${file}.1`), ...linesOf(file)]
  assert.deepEqual(unpaired(lines), [])
  assert.deepEqual(
    lines.map(({ requestId, type }) => requestId ?? type),
    ['a', 'AUDIT_STOP', 'AUDIT_START', 'a', 'AUDIT_START'],
  )
})

test('lines that wait at the close are written before AUDIT_STOP, and their callers are called', async (t) => {
  const { file, trail, faults } = trailIn(temporaryDirectory(t))
  const a = requestLine('a')
  await endOf(trail.append(a))
  const fates = [trail.append(requestLine('b')), trail.settle(responseLine(a))].map(fateOf)
  trail.close('SIGTERM')
  assert.deepEqual([fates[0]?.value, fates[1]?.value], [undefined, undefined])
  const lines = linesOf(file)
  assert.deepEqual(typesOf(lines), ['API_REQUEST', 'API_REQUEST', 'API_RESPONSE', 'AUDIT_STOP'])
  assert.equal(lines[3]?.open, 1)
  await turn()
  assert.deepEqual([linesOf(file).length, faults], [4, []])
})

test('a caller that learns at the close that its line was not written finds the trail closed', async (t) => {
  const { file, trail, faults } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  const commit = trail.append(requestLine('a'))
  const fate = fateOf(commit)
  assert.ok(commit instanceof Commit)
  commit.whenDone(() => assert.match(String(trail.append(requestLine('b'))), /closed/))
  disk.roomBytes = 0
  trail.close('SIGTERM')
  assert.match(String(fate.value), /ENOSPC/)
  assert.match(String(faults.at(-1)), /2 audit records could not be written before the end/)
  await turn()
  assert.equal(fs.statSync(file).size, 0)
})
