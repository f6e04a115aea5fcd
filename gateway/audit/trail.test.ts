import assert from 'node:assert/strict'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { LONGER } from '../e2e/long-runs.ts'
import type { ProcessLock } from '../storage/process-lock.ts'
import { storeRecord } from './audit-records.ts'
import { Commit } from './commit/commit.ts'
import { recover } from './recovery/recovery.ts'
import {
  endOf,
  linesOf,
  openTo,
  requestLine,
  responseLine,
  smallDisk,
  temporaryDirectory,
  trailIn,
  typesOf,
  unpaired,
} from './trail.test-support.ts'

const NOTHING = { records: [], cutBytes: 0, damagedLines: 0, unresolved: 0 }

function lockOf(held: boolean, release = () => {}): ProcessLock {
  const lock: ProcessLock = {
    held,
    fault: undefined,
    isRemoved: false,
    renewed: () => lock,
    release,
  }
  return lock
}

test('a missing directory is created, and only its owner can read the file', (t) => {
  const { file } = trailIn(join(temporaryDirectory(t), 'a', 'b'))
  assert.equal(fs.statSync(file).mode & 0o777, 0o600)
})

test('records are appended to what is in the file', async (t) => {
  const directory = temporaryDirectory(t)
  fs.writeFileSync(join(directory, 'audit.ndjson'), '{"type":"OLD"}\n')
  const { file, trail } = trailIn(directory)
  await endOf(trail.append(requestLine('a')))
  assert.deepEqual(typesOf(linesOf(file)), ['OLD', 'API_REQUEST'])
})

test('a record longer than the buffer is written whole', async (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  const store = 'ü'.repeat(100_000)
  await endOf(trail.settle(storeRecord({ type: 'STORE_RESTORED', timestamp: '', store })))
  assert.equal(linesOf(file)[0]?.store, store)
})

test('a file that cannot be opened is an error that names it', (t) => {
  const directory = temporaryDirectory(t)
  fs.mkdirSync(join(directory, 'audit.ndjson'))
  assert.throws(() => trailIn(directory), /audit file .*audit\.ndjson cannot be used: EISDIR/)
  fs.writeFileSync(join(directory, 'plain'), '')
  assert.throws(
    () => trailIn(join(directory, 'plain')),
    /audit file .*audit\.ndjson cannot be used: E(NOTDIR|EXIST)/,
  )
})

test('begin writes the recovered responses, then AUDIT_START with the results of recovery and `open` 0', (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t), { lock: lockOf(false) })
  const records = [responseLine(requestLine('a')), responseLine(requestLine('b'))]
  trail.begin({ records, cutBytes: 3, damagedLines: 1, unresolved: 4 })
  const lines = linesOf(file)
  assert.deepEqual(typesOf(lines), ['API_RESPONSE', 'API_RESPONSE', 'AUDIT_START'])
  assert.deepEqual(lines[2], {
    type: 'AUDIT_START',
    timestamp: '2026-01-02T00:00:00.000Z',
    version: '1.2.3',
    pid: process.pid,
    open: 0,
    cutBytes: 3,
    recovered: 2,
    damagedLines: 1,
    unresolved: 4,
    locked: false,
    format: 4,
  })
})

test('close writes AUDIT_STOP with its reason, releases the lock, and later records are refused', async (t) => {
  let released = 0
  const { file, trail, faults } = trailIn(temporaryDirectory(t), {
    lock: lockOf(true, () => released++),
  })
  await endOf(trail.append(requestLine('a')))
  trail.close('SIGTERM')
  trail.close('SIGTERM')
  assert.deepEqual([linesOf(file)[1]?.reason, linesOf(file)[1]?.open], ['SIGTERM', 1])
  assert.equal(released, 1)
  assert.equal(trail.writable, false)
  assert.equal(trail.recheck(), false)
  assert.match(String(await endOf(trail.append(requestLine('b')))), /closed/)
  trail.reopen()
  assert.equal(faults.length, 0)
  await endOf(trail.settle(responseLine(requestLine('a'))))
  assert.match(String(faults[0]), /after the trail was closed/)
  assert.equal(linesOf(file).length, 2)
})

test('a request that cannot be written leaves no byte in the file', async (t) => {
  const { file, trail, faults } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  await endOf(trail.append(requestLine('a')))
  const before = fs.readFileSync(file, 'utf8')
  disk.roomBytes = 50
  assert.equal(((await endOf(trail.append(requestLine('b')))) as NodeJS.ErrnoException).code, 'ENOSPC')
  assert.equal(fs.readFileSync(file, 'utf8'), before)
  assert.equal(trail.writable, false)
  assert.equal(faults.length, 1)
})

test('recheck ends an outage without traffic once the disk has room, and the trail shows the outage', async (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  await endOf(trail.append(requestLine('a')))
  disk.roomBytes = 10
  assert.ok(await endOf(trail.append(requestLine('b'))))
  assert.ok(await endOf(trail.append(requestLine('c'))))
  await endOf(trail.settle(responseLine(requestLine('a'))))
  assert.equal(trail.recheck(), false)
  disk.roomBytes = Number.POSITIVE_INFINITY
  assert.equal(trail.recheck(), true)
  assert.equal(trail.writable, true)
  const lines = linesOf(file)
  assert.deepEqual(typesOf(lines), ['API_REQUEST', 'AUDIT_STOP', 'API_RESPONSE', 'AUDIT_START'])
  assert.deepEqual([lines[1]?.reason, lines[1]?.open], ['write failed: ENOSPC', 1])
  assert.deepEqual([lines[3]?.refused, lines[3]?.open], [2, 0])
})

test('a new request ends an outage once the disk has room', async (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  disk.roomBytes = 0
  assert.ok(await endOf(trail.append(requestLine('a'))))
  disk.roomBytes = Number.POSITIVE_INFINITY
  assert.equal(await endOf(trail.append(requestLine('b'))), undefined)
  assert.deepEqual(typesOf(linesOf(file)), ['AUDIT_STOP', 'AUDIT_START', 'API_REQUEST'])
})

test('each outage counts its refused requests from 0', async (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  for (const request of [requestLine('a'), requestLine('b')]) {
    disk.roomBytes = 0
    await endOf(trail.append(request))
    disk.roomBytes = Number.POSITIVE_INFINITY
    trail.recheck()
  }
  const refused = linesOf(file)
    .filter((line) => line.type === 'AUDIT_START')
    .map((line) => line.refused)
  assert.deepEqual(refused, [1, 1])
})

test('a response that cannot be written is written first when the disk has room', async (t) => {
  const { file, trail, records } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  const [a, b] = [requestLine('a'), requestLine('b')]
  await endOf(trail.append(a))
  await endOf(trail.append(b))
  disk.roomBytes = 20
  await endOf(trail.settle(responseLine(a)))
  await endOf(trail.settle(responseLine(b)))
  assert.equal(trail.writable, false)
  assert.equal(linesOf(file).length, 2)
  disk.roomBytes = Number.POSITIVE_INFINITY
  await endOf(trail.append(requestLine('c')))
  const types = [
    'API_REQUEST',
    'API_REQUEST',
    'API_RESPONSE',
    'AUDIT_STOP',
    'API_RESPONSE',
    'AUDIT_START',
    'API_REQUEST',
  ]
  assert.deepEqual(typesOf(linesOf(file)), types)
  assert.deepEqual(records, types)
})

test('a refused request that is in an append-only file in part is completed and gets its response', async (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  disk.roomBytes = 30
  disk.canCut = false
  assert.ok(await endOf(trail.append(requestLine('a'))))
  assert.equal(fs.statSync(file).size, 30)
  disk.roomBytes = 3
  assert.equal(trail.recheck(), false)
  disk.roomBytes = Number.POSITIVE_INFINITY
  assert.equal(trail.recheck(), true)
  const lines = linesOf(file)
  assert.deepEqual(typesOf(lines), ['API_REQUEST', 'API_RESPONSE', 'AUDIT_STOP', 'AUDIT_START'])
  assert.equal(lines[1]?.recovered, true)
})

test('close reports records that still cannot be written', async (t) => {
  const { trail, faults } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  await endOf(trail.append(requestLine('a')))
  disk.roomBytes = 0
  await endOf(trail.settle(responseLine(requestLine('a'))))
  trail.close('SIGTERM')
  // The response, the AUDIT_STOP of the pause and the AUDIT_STOP of the end.
  assert.match(String(faults.at(-1)), /3 audit records could not be written before the end/)
})

test('after a rename, reopen continues in a new file, and both files count the open requests', async (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  const request = requestLine('a')
  await endOf(trail.append(request))
  const { ino } = fs.statSync(file, { bigint: true })
  fs.renameSync(file, `${file}.1`)
  await endOf(trail.append(requestLine('b')))
  trail.reopen()
  await endOf(trail.settle(responseLine(request)))
  const [old, now] = [linesOf(`${file}.1`), linesOf(file)]
  assert.deepEqual(typesOf(old), ['API_REQUEST', 'API_REQUEST', 'AUDIT_STOP'])
  assert.deepEqual([old[2]?.reason, old[2]?.open], ['rotated', 2])
  assert.deepEqual(typesOf(now), ['AUDIT_START', 'API_RESPONSE'])
  assert.deepEqual([now[0]?.continues, now[0]?.open, now[0]?.refused], [ino.toString(), 2, 0])
  assert.equal(fs.statSync(file).mode & 0o777, 0o600)
})

test('only the first AUDIT_START of a file names the previous file', async (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  fs.renameSync(file, `${file}.1`)
  trail.reopen()
  disk.roomBytes = 0
  await endOf(trail.append(requestLine('a')))
  disk.roomBytes = Number.POSITIVE_INFINITY
  trail.recheck()
  const starts = linesOf(file).filter((line) => line.type === 'AUDIT_START')
  assert.deepEqual(
    starts.map((line) => 'continues' in line),
    [true, false],
  )
})

test('settleOnce records each subject once in each file, also when the disk is full', async (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  const subjects = [{}, {}]
  const settle = async (name: string) => {
    for (const subject of [...subjects, ...subjects])
      trail.settleOnce(subject, () => `{"type":"SIGNER_KEY","name":"${name}"}\n`)
    await endOf(trail.append(requestLine(name)))
  }
  await settle('a')
  await settle('b')
  fs.renameSync(file, `${file}.1`)
  trail.reopen()
  disk.roomBytes = 0
  await settle('c')
  disk.roomBytes = Number.POSITIVE_INFINITY
  trail.recheck()
  const namesIn = (path: string) =>
    linesOf(path).flatMap(({ type, name }) => (type === 'SIGNER_KEY' ? [name] : []))
  assert.deepEqual(
    [namesIn(`${file}.1`), namesIn(file)],
    [
      ['a', 'a'],
      ['c', 'c'],
    ],
  )
})

test('settleOnce records a subject again in a new file that has the inode of a removed one', async (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  const subject = {}
  const settle = () => trail.settleOnce(subject, () => '{"type":"SIGNER_KEY"}\n')
  settle()
  fs.renameSync(file, `${file}.1`)
  trail.reopen()
  await endOf(trail.append(requestLine('unsigned')))
  fs.renameSync(file, `${file}.2`)
  fs.truncateSync(`${file}.1`)
  fs.renameSync(`${file}.1`, file)
  trail.reopen()
  settle()
  await endOf(trail.append(requestLine('signed')))
  assert.ok(linesOf(file).some(({ type }) => type === 'SIGNER_KEY'))
})

test('reopen without a rename changes nothing', async (t) => {
  const { file, trail, faults } = trailIn(temporaryDirectory(t))
  const open = openTo(file)
  await endOf(trail.append(requestLine('a')))
  trail.reopen()
  await endOf(trail.append(requestLine('b')))
  assert.deepEqual(typesOf(linesOf(file)), ['API_REQUEST', 'API_REQUEST'])
  assert.equal(open.length, 1)
  assert.deepEqual(openTo(file), open)
  assert.equal(faults.length, 0)
})

test('reopen closes the old file', (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  fs.renameSync(file, `${file}.1`)
  assert.equal(openTo(`${file}.1`).length, 1)
  trail.reopen()
  assert.deepEqual(openTo(`${file}.1`), [])
})

test('when the new file cannot be opened, the trail continues in the old one and reports it', async (t) => {
  const { file, trail, faults } = trailIn(temporaryDirectory(t))
  fs.renameSync(file, `${file}.1`)
  fs.mkdirSync(file)
  trail.reopen()
  assert.match(String(faults[0]), /cannot be used: EISDIR/)
  assert.equal(await endOf(trail.append(requestLine('a'))), undefined)
  assert.deepEqual(typesOf(linesOf(`${file}.1`)), ['API_REQUEST'])
})

test('lines that did not fit into the old file are whole in the new one', async (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  const request = requestLine('a')
  await endOf(trail.append(request))
  disk.roomBytes = 40
  disk.canCut = false
  await endOf(trail.settle(responseLine(request)))
  fs.renameSync(file, `${file}.1`)
  trail.reopen()
  assert.equal(trail.writable, false)
  disk.roomBytes = Number.POSITIVE_INFINITY
  assert.equal(trail.recheck(), true)
  assert.deepEqual(typesOf(linesOf(file)), ['API_RESPONSE', 'AUDIT_STOP', 'AUDIT_START'])
  assert.equal(linesOf(file)[2]?.open, 0)
})

for (const durability of ['written', 'buffered'] as const) {
  test(`${durability}: when a write to an append-only file is partial, its whole lines are not written again`, async (t) => {
    const { file, trail, records } = trailIn(temporaryDirectory(t), { durability })
    const disk = smallDisk(t)
    const [a, b, c] = ['a', 'b', 'c'].map((id) => requestLine(id)) as [string, string, string]
    const outcomes = [a, b, c].map((line) => endOf(trail.append(line)))
    Object.assign(disk, { roomBytes: Buffer.byteLength(a + b) - 9, canCut: false })
    fs.renameSync(file, `${file}.1`)
    trail.reopen()
    disk.roomBytes = Number.POSITIVE_INFINITY
    assert.equal(trail.recheck(), true)
    if (durability === 'buffered') {
      for (const line of [a, b, c]) trail.settle(responseLine(line))
    } else {
      for (const outcome of outcomes) assert.match(String(await outcome), /ENOSPC/)
    }
    trail.close('end')
    const old = fs.readFileSync(`${file}.1`, 'utf8')
    assert.equal(old, (a + b).slice(0, -9))
    fs.writeFileSync(`${file}.1`, a)
    const lines = [...linesOf(`${file}.1`), ...linesOf(file)]
    assert.deepEqual(unpaired(lines), [])
    assert.equal(lines.filter(({ requestId }) => requestId === 'a').length, 2)
    assert.equal(lines.at(-1)?.open, 0)
    assert.deepEqual(records.sort(), typesOf(lines).sort())
  })
}

test('an AUDIT_START torn in an append-only file is completed', async (t) => {
  const { file, trail } = trailIn(temporaryDirectory(t))
  const disk = smallDisk(t)
  disk.canCut = false
  fs.renameSync(file, `${file}.1`)
  disk.roomBytes = 0
  await endOf(trail.append(requestLine('a')))
  trail.reopen()
  const stopBytes =
    Buffer.byteLength(
      '{"type":"AUDIT_STOP","timestamp":"2026-01-02T00:00:00.000Z","pid":,"open":0,"reason":"write failed: ENOSPC"}\n',
    ) + String(process.pid).length
  disk.roomBytes = stopBytes + 20
  assert.equal(trail.recheck(), false)
  assert.equal(fs.statSync(file).size, stopBytes + 20)
  disk.roomBytes = Number.POSITIVE_INFINITY
  assert.equal(trail.recheck(), true)
  assert.deepEqual(typesOf(linesOf(file)), ['AUDIT_STOP', 'AUDIT_START', 'AUDIT_START'])
})

/** What can happen to a trail. Numbers choose among what is there, or are bytes. */
const happening = fc.oneof(
  { weight: 6, arbitrary: fc.record({ what: fc.constant('turn' as const) }) },
  { weight: 6, arbitrary: fc.record({ what: fc.constant('request' as const), id: fc.nat(2) }) },
  { weight: 5, arbitrary: fc.record({ what: fc.constant('response' as const), which: fc.nat(20) }) },
  { weight: 3, arbitrary: fc.record({ what: fc.constant('room' as const), bytes: fc.nat(600) }) },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('cleared' as const), canCut: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('recheck' as const) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('rotate' as const) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('kill' as const) }) },
)

for (const durability of ['written', 'buffered'] as const) {
  test(`${durability}: after any failures and kills, every accepted request has one response and no line is torn`, async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const disk = smallDisk(t)
    const root = temporaryDirectory(t)
    let run = 0
    /** Waits until gathered lines are written. */
    const moment = () => {
      t.mock.timers.tick(5)
      return turn()
    }
    const law = fc.asyncProperty(fc.array(happening, { minLength: 1, maxLength: 50 }), async (happenings) => {
      const directory = join(root, String(run++))
      Object.assign(disk, { roomBytes: Number.POSITIVE_INFINITY, canCut: true })
      let { file, trail } = trailIn(directory, { durability })
      trail.begin(NOTHING)
      const files: string[] = []
      /** Lines that were reported as committed. */
      const committed: string[] = []
      let open: string[] = []
      const revive = async () => {
        // A killed process writes none of its waiting lines, and leaves no open file.
        Object.assign(disk, { roomBytes: 0, canCut: false })
        await moment()
        trail.close('killed')
        Object.assign(disk, { roomBytes: Number.POSITIVE_INFINITY, canCut: true })
        const recovery = recover(file)
        trail = trailIn(directory, { durability }).trail
        trail.begin(recovery)
        open = []
      }
      for (const it of happenings) {
        if (it.what === 'request') {
          const line = requestLine(`id-${it.id}`)
          const outcome = trail.append(line)
          if (outcome === undefined) open.push(line)
          else if (outcome instanceof Commit)
            outcome.whenDone((error) => {
              if (error !== undefined) return
              committed.push(line)
              open.push(line)
            })
        } else if (it.what === 'response') {
          const [line] = open.splice(it.which % Math.max(1, open.length), 1)
          if (line === undefined) continue
          const response = responseLine(line)
          trail.settle(response)?.whenDone((error) => error === undefined && committed.push(response))
        } else if (it.what === 'turn') await moment()
        else if (it.what === 'room') disk.roomBytes = it.bytes
        else if (it.what === 'cleared')
          Object.assign(disk, { roomBytes: Number.POSITIVE_INFINITY, canCut: it.canCut })
        else if (it.what === 'recheck') trail.recheck()
        else if (it.what === 'rotate' && fs.existsSync(file)) {
          fs.renameSync(file, `${file}.${files.length}`)
          files.push(`${file}.${files.length}`)
          trail.reopen()
          // Rotations are seconds apart, so that file times differ.
          fs.utimesSync(files.at(-1) as string, files.length, files.length)
        } else if (it.what === 'kill') await revive()
      }
      await revive()
      // A full disk with a file that cannot be cut leaves a torn last line, and nothing else.
      for (const rotated of files) {
        const text = fs.readFileSync(rotated, 'latin1')
        fs.truncateSync(rotated, text.lastIndexOf('\n') + 1)
      }
      assert.deepEqual(unpaired([...files, file].flatMap((name) => linesOf(name))), [])
      const written = [...files, file].flatMap((name) => fs.readFileSync(name, 'utf8').split(/(?<=\n)/))
      const count = (lines: readonly string[], wanted: string) =>
        lines.filter((line) => line === wanted).length
      for (const line of new Set(committed)) assert.ok(count(written, line) >= count(committed, line), line)
      trail.close('end')
    })
    await fc.assert(law, { numRuns: 500 * LONGER, includeErrorInReport: true })
  })
}

test('whenPendingWritten calls back when the disk has room, or with an error when that takes too long', async (t) => {
  const disk = smallDisk(t)
  let nowMs = 0
  t.mock.method(performance, 'now', () => nowMs)
  const { trail } = trailIn(temporaryDirectory(t), { timeoutMs: 100 })
  const [a, b] = [requestLine('a'), requestLine('b')]
  for (const line of [a, b]) await endOf(trail.append(line))
  const calls: unknown[] = []
  trail.whenPendingWritten((error) => calls.push(['before', error]))
  disk.roomBytes = 0
  await endOf(trail.settle(responseLine(a)))
  trail.settle(responseLine(b))
  trail.whenPendingWritten((error) => calls.push(['soon', error]))
  trail.maintain()
  assert.deepEqual(calls, [['before', undefined]])
  disk.roomBytes = Number.POSITIVE_INFINITY
  trail.maintain()
  assert.deepEqual(calls.slice(1), [['soon', undefined]])
  await endOf(trail.append(a))
  disk.roomBytes = 0
  await endOf(trail.settle(responseLine(a)))
  trail.whenPendingWritten((error) => calls.push(['late', (error as NodeJS.ErrnoException)?.code]))
  nowMs += 99
  trail.maintain()
  assert.equal(calls.length, 2)
  nowMs += 1
  trail.maintain()
  trail.whenPendingWritten((error) => calls.push(['later', (error as NodeJS.ErrnoException)?.code]))
  assert.deepEqual(calls.slice(2), [
    ['late', 'ENOSPC'],
    ['later', 'ENOSPC'],
  ])
})

for (const durability of ['written', 'synced', 'buffered'] as const) {
  test(`${durability}: a file that is removed while in use is created again, and log and file say so`, async (t) => {
    const directory = join(temporaryDirectory(t), 'trail')
    const { file, trail, faults } = trailIn(directory, { durability })
    await endOf(trail.append(requestLine('a')))
    trail.maintain()
    assert.deepEqual(faults, [])
    fs.rmSync(directory, { recursive: true })
    trail.maintain()
    assert.match(String(faults[0]), /audit\.ndjson was removed while the gateway was writing it/)
    await endOf(trail.settle(responseLine(requestLine('a'))))
    trail.maintain()
    assert.equal(faults.length, 1)
    trail.close('end')
    const lines = linesOf(file)
    assert.deepEqual(typesOf(lines), ['AUDIT_START', 'API_RESPONSE', 'AUDIT_STOP'])
    assert.deepEqual([lines[0]?.removed, lines[0]?.open], [true, 1])
  })
}

for (const durability of ['written', 'synced', 'buffered'] as const) {
  test(`${durability}: while the path of the file cannot be followed, the trail goes on, and is rotated later`, async (t) => {
    const { file, trail, faults } = trailIn(temporaryDirectory(t), { durability })
    fs.renameSync(file, `${file}.1`)
    fs.symlinkSync(file, file)
    trail.maintain()
    trail.reopen()
    assert.match(faults.join(), /ELOOP/)
    assert.equal(await endOf(trail.append(requestLine('a'))), undefined)
    fs.rmSync(file)
    trail.reopen()
    await endOf(trail.append(requestLine('b')))
    trail.close('end')
    assert.deepEqual(typesOf(linesOf(`${file}.1`)), ['API_REQUEST', 'AUDIT_STOP'])
    assert.deepEqual(typesOf(linesOf(file)), ['AUDIT_START', 'API_REQUEST', 'AUDIT_STOP'])
  })

  test(`${durability}: an open file that fstat cannot find (ESTALE) is a fault, and the trail stays writable`, async (t) => {
    const { file, trail, faults } = trailIn(temporaryDirectory(t), { durability })
    const { fstatSync } = fs
    const put = (fstat: typeof fstatSync) => {
      Object.assign(fs, { fstatSync: fstat })
      syncBuiltinESMExports()
    }
    const stale = () => {
      throw Object.assign(new Error('ESTALE: stale file handle, fstat'), { code: 'ESTALE' })
    }
    t.after(() => put(fstatSync))
    put(stale)
    trail.maintain()
    const { writable } = trail
    await endOf(trail.append(requestLine('a')))
    trail.maintain()
    put(fstatSync)
    trail.maintain()
    assert.deepEqual(
      [writable, trail.writable, faults.every(({ message }) => /ESTALE/.test(message))],
      [true, true, true],
    )
    trail.close('end')
    assert.equal(typesOf(linesOf(file)).at(-1), 'AUDIT_STOP')
  })
}
