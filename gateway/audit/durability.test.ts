import assert from 'node:assert/strict'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { LONGER } from '../e2e/long-runs.ts'
import { Commit } from './commit/commit.ts'
import { openTrail } from './open-trail.ts'
import { sealRecord } from './seal-records.ts'
import {
  linesOf,
  requestLine,
  responseLine,
  smallDisk,
  temporaryDirectory,
  typesOf,
  unpaired,
} from './trail.test-support.ts'
import type { Trail } from './trail.ts'
import type { TrailOptions } from './trail-options.ts'

type Done = (error: Error | null) => void

/** A disk whose asynchronous syncs end when the test says so. While it is `broken`, all syncs fail. */
function slowDisk(t: TestContext) {
  const { fdatasync, fdatasyncSync } = fs
  const waiting: { readonly fd: number; readonly done: Done }[] = []
  const disk = { broken: false, committedBytes: 0, syncs: 0 }
  const fault = () => Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' })
  const commit = (fd: number) => {
    disk.syncs++
    if (disk.broken) throw fault()
    fdatasyncSync(fd)
    disk.committedBytes = fs.fstatSync(fd).size
  }
  Object.assign(fs, {
    fdatasync: (fd: number, done: Done) => waiting.push({ fd, done }),
    fdatasyncSync: commit,
  })
  syncBuiltinESMExports()
  t.after(() => {
    Object.assign(fs, { fdatasync, fdatasyncSync })
    syncBuiltinESMExports()
  })
  /** Ends what is in flight. @returns false when nothing was. */
  const finish = () => {
    const sync = waiting.shift()
    if (sync === undefined) return false
    try {
      commit(sync.fd)
      sync.done(null)
    } catch (error) {
      sync.done(error as Error)
    }
    return true
  }
  return Object.assign(disk, { waiting, finish })
}

function trailIn(directory: string, options: Partial<TrailOptions>) {
  const file = join(directory, 'audit.ndjson')
  const faults: string[] = []
  const records: string[] = []
  const trail = openTrail({
    file,
    onFault: ({ message }) => faults.push(message),
    onRecord: (type, count) => records.push(...Array<string>(count).fill(type)),
    ...options,
  })
  return { file, trail, faults, records }
}

/** A group that did not grow in a turn is synced at its end. */
async function groupEnds(): Promise<void> {
  await turn()
  await turn()
}

/** What came of the commit: undefined until it is known. */
function outcomeOf(commit: unknown): { value: Error | 'committed' | undefined } {
  assert.ok(commit instanceof Commit)
  const outcome: { value: Error | 'committed' | undefined } = { value: undefined }
  commit.whenDone((error) => {
    outcome.value = error ?? 'committed'
  })
  return outcome
}

test('synced: lines that came together are one commit, and lines during its fdatasync are the next', async (t) => {
  const disk = slowDisk(t)
  const { file, trail, records } = trailIn(temporaryDirectory(t), { durability: 'synced' })
  assert.equal(disk.committedBytes, fs.statSync(file).size, 'AUDIT_START is committed')
  const [one, two, three] = [requestLine('1'), requestLine('2'), requestLine('3')]
  const first = trail.append(one)
  assert.equal(trail.append(two), first)
  const outcome = outcomeOf(first)
  await groupEnds()
  assert.deepEqual(typesOf(linesOf(file)), ['AUDIT_START', 'API_REQUEST', 'API_REQUEST'])
  const second = trail.append(three)
  assert.notEqual(second, first)
  const response = trail.settle(responseLine(one))
  assert.equal(response, second)
  const next = outcomeOf(second)
  await groupEnds()
  assert.deepEqual([disk.waiting.length, linesOf(file).length, outcome.value], [1, 3, undefined])
  assert.deepEqual(records, ['AUDIT_START'])
  disk.finish()
  assert.deepEqual([outcome.value, next.value], ['committed', undefined])
  await groupEnds()
  disk.finish()
  assert.equal(next.value, 'committed')
  assert.equal(disk.committedBytes, fs.statSync(file).size)
  assert.equal(records.length, 5)
  trail.append(requestLine('4'))
  trail.close('end')
  assert.deepEqual(typesOf(linesOf(file)).slice(-2), ['API_REQUEST', 'AUDIT_STOP'])
  assert.equal(disk.committedBytes, fs.statSync(file).size)
})

test('synced: a group waits while each turn brings lines, for four turns at most', async (t) => {
  const disk = slowDisk(t)
  const { file, trail } = trailIn(temporaryDirectory(t), { durability: 'synced' })
  const groups: number[] = []
  for (let line = 0; groups.length < 3; line++) {
    trail.append(requestLine(String(line)))
    await turn()
    if (disk.waiting.length === 0) continue
    groups.push(linesOf(file).length - 1)
    disk.finish()
  }
  const [first, second, third] = groups as [number, number, number]
  assert.deepEqual([first, second - first, third - second], [5, 5, 5])
  trail.append(requestLine('alone'))
  await groupEnds()
  assert.equal(disk.waiting.length, 1)
})

test('synced: when fdatasync fails, requests are refused, and responses stay pending and are committed later', async (t) => {
  const disk = slowDisk(t)
  const { file, trail, faults, records } = trailIn(temporaryDirectory(t), { durability: 'synced' })
  const known = requestLine('known')
  trail.append(known)
  await groupEnds()
  disk.finish()
  const before = fs.readFileSync(file, 'utf8')
  disk.broken = true
  const gone = requestLine('gone')
  const outcomes = [
    outcomeOf(trail.append(requestLine('refused'))),
    outcomeOf(trail.append(gone)),
    outcomeOf(trail.settle(responseLine(known))),
  ]
  await groupEnds()
  const late = outcomeOf(trail.append(requestLine('late')))
  trail.settle(responseLine(gone))
  disk.finish()
  for (const { value } of [...outcomes, late]) assert.match(String(value), /EIO/)
  assert.equal(fs.readFileSync(file, 'utf8'), before, 'what was not committed is cut off')
  assert.equal(trail.writable, false)
  assert.match(String(trail.append(requestLine('later'))), /EIO/)
  assert.equal(fs.readFileSync(file, 'utf8'), before, 'and so is what a vain attempt wrote')
  assert.ok(faults.length >= 2)
  disk.broken = false
  assert.equal(trail.recheck(), true)
  assert.equal(disk.committedBytes, fs.statSync(file).size)
  const lines = linesOf(file)
  assert.deepEqual(unpaired(lines), [])
  assert.deepEqual(
    lines.map(({ requestId, type, reason, refused }) => requestId ?? reason ?? refused ?? type),
    ['AUDIT_START', 'known', 'gone', 'known', 'gone', 'write failed: EIO', 3],
  )
  assert.deepEqual(records.sort(), typesOf(lines).sort(), 'each is counted once')
})

test('synced: after a failed fdatasync a file that cannot be cut is not written to until it is rotated', async (t) => {
  const disk = slowDisk(t)
  const small = smallDisk(t)
  const { file, trail } = trailIn(temporaryDirectory(t), { durability: 'synced' })
  disk.broken = true
  const outcome = outcomeOf(trail.append(requestLine('a')))
  await groupEnds()
  small.canCut = false
  disk.finish()
  assert.match(String(outcome.value), /EIO/)
  disk.broken = false
  assert.equal(trail.recheck(), false)
  fs.renameSync(file, `${file}.1`)
  trail.reopen()
  assert.equal(trail.writable, true)
  assert.equal(disk.committedBytes, fs.statSync(file).size)
})

test('synced: a torn line stays torn when its completion is rolled back', async (t) => {
  slowDisk(t)
  const small = smallDisk(t)
  const { file, trail } = trailIn(temporaryDirectory(t), { durability: 'synced' })
  const line = requestLine('a')
  Object.assign(small, { roomBytes: 30, canCut: false })
  const outcome = outcomeOf(trail.append(line))
  await groupEnds()
  assert.match(String(outcome.value), /ENOSPC/)
  Object.assign(small, { roomBytes: line.length - 30 + 20, canCut: true })
  assert.equal(trail.recheck(), false)
  small.roomBytes = Number.POSITIVE_INFINITY
  assert.equal(trail.recheck(), true)
  const lines = linesOf(file)
  assert.deepEqual(
    lines.map(({ type, open }) => [type, open]),
    [
      ['AUDIT_START', 0],
      ['API_REQUEST', undefined],
      ['API_RESPONSE', undefined],
      ['AUDIT_STOP', 0],
      ['AUDIT_START', 0],
    ],
  )
})

test('synced: a rotation waits for the end of a commit', async (t) => {
  const disk = slowDisk(t)
  const { file, trail } = trailIn(temporaryDirectory(t), { durability: 'synced' })
  const outcome = outcomeOf(trail.append(requestLine('a')))
  await groupEnds()
  fs.renameSync(file, `${file}.1`)
  trail.reopen()
  assert.equal(fs.existsSync(file), false)
  disk.finish()
  assert.equal(outcome.value, 'committed')
  await groupEnds()
  assert.deepEqual(typesOf(linesOf(`${file}.1`)), ['AUDIT_START', 'API_REQUEST', 'AUDIT_STOP'])
  assert.deepEqual(typesOf(linesOf(file)), ['AUDIT_START'])
  assert.equal(disk.committedBytes, fs.statSync(file).size)
})

test('synced: a removed file is noticed also when each look comes during a commit', async (t) => {
  const disk = slowDisk(t)
  const { file, trail, faults } = trailIn(temporaryDirectory(t), { durability: 'synced' })
  trail.append(requestLine('a'))
  await groupEnds()
  fs.rmSync(file)
  trail.maintain()
  trail.append(requestLine('b'))
  disk.finish()
  await groupEnds()
  assert.match(String(faults[0]), /was removed while the gateway was writing it/)
  disk.finish()
  await groupEnds()
  assert.deepEqual(typesOf(linesOf(file)), ['AUDIT_START', 'API_REQUEST'])
  trail.close('end')
})

test('synced: when the last commit before a hand-over fails, its requests are refused and not recorded', async (t) => {
  const disk = slowDisk(t)
  const { file, trail } = trailIn(temporaryDirectory(t), { durability: 'synced' })
  const outcome = outcomeOf(trail.append(requestLine('refused')))
  disk.broken = true
  assert.match(String(await trail.suspend('restart')), /EIO/)
  assert.match(String(outcome.value), /EIO/)
  disk.broken = false
  assert.equal(trail.recheck(), true)
  trail.close('end')
  const lines = linesOf(file)
  assert.deepEqual(
    lines.filter(({ requestId }) => requestId !== undefined),
    [],
  )
  assert.equal(lines.at(-2)?.refused, 1)
})

test('synced needs a regular file', () => {
  const silent = { durability: 'synced', onFault: assert.fail, onRecord: () => {} } as const
  for (const file of ['-', '/dev/null']) {
    assert.throws(() => openTrail({ file, ...silent }), /audit file .* only a regular file can be synced/)
  }
})

test('buffered: lines are written after 5 ms, at 64 KiB, at a rotation and at the end', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { file, trail, records } = trailIn(temporaryDirectory(t), { durability: 'buffered' })
  const line = requestLine('a')
  assert.equal(trail.append(line), undefined)
  assert.equal(trail.settle(responseLine(line)), undefined)
  t.mock.timers.tick(4)
  assert.deepEqual([linesOf(file).length, records.length], [1, 1])
  t.mock.timers.tick(1)
  assert.deepEqual([linesOf(file).length, records.length], [3, 3])
  const count = Math.ceil(65_536 / line.length)
  for (let i = 0; i < count - 1; i++) trail.append(line)
  assert.equal(linesOf(file).length, 3)
  trail.append(line)
  assert.equal(linesOf(file).length, 3 + count)
  trail.append(line)
  fs.renameSync(file, `${file}.1`)
  trail.reopen()
  assert.deepEqual(typesOf(linesOf(`${file}.1`)).slice(-2), ['API_REQUEST', 'AUDIT_STOP'])
  trail.append(line)
  trail.close('end')
  assert.deepEqual(typesOf(linesOf(file)), ['AUDIT_START', 'API_REQUEST', 'AUDIT_STOP'])
  assert.equal(linesOf(file)[2]?.open, count + 2)
})

test('buffered: while the disk is full requests are refused; records of accepted ones are written later', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const disk = smallDisk(t)
  const { file, trail, faults } = trailIn(temporaryDirectory(t), { durability: 'buffered' })
  trail.append(requestLine('a'))
  trail.append(requestLine('b'))
  disk.roomBytes = requestLine('a').length + 3
  t.mock.timers.tick(5)
  assert.equal(linesOf(file).length, 1)
  assert.equal(faults.length, 1)
  assert.match(String(trail.append(requestLine('c'))), /ENOSPC/)
  disk.roomBytes = Number.POSITIVE_INFINITY
  assert.equal(trail.recheck(), true)
  assert.deepEqual(typesOf(linesOf(file)), [
    'AUDIT_START',
    'API_REQUEST',
    'API_REQUEST',
    'AUDIT_STOP',
    'AUDIT_START',
  ])
  assert.deepEqual([linesOf(file)[4]?.refused, linesOf(file)[4]?.open], [1, 2])
})

test('buffered: when the line behind foreign bytes cannot be written, no record is counted twice', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const disk = smallDisk(t)
  const { file, trail, records } = trailIn(temporaryDirectory(t), { durability: 'buffered' })
  const append = (id: string) => {
    trail.append(requestLine(id))
    t.mock.timers.tick(5)
  }
  fs.appendFileSync(file, 'foreign')
  append('in a new file')
  append('in the same file')
  const counted = [...records]
  fs.appendFileSync(file, 'foreign')
  disk.roomBytes = 0
  append('not written')
  assert.deepEqual(records, counted)
})

const happening = fc.oneof(
  { weight: 6, arbitrary: fc.record({ what: fc.constant('request' as const), id: fc.nat(2) }) },
  { weight: 5, arbitrary: fc.record({ what: fc.constant('response' as const), which: fc.nat(20) }) },
  { weight: 6, arbitrary: fc.record({ what: fc.constant('turn' as const) }) },
  { weight: 6, arbitrary: fc.record({ what: fc.constant('commit' as const) }) },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('disk' as const), broken: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('room' as const), bytes: fc.nat(900) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('recheck' as const) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('append-only' as const), canCut: fc.boolean() }) },
)

test('synced: after a power loss at any moment the trail has every accepted request and every response that a client saw', async (t) => {
  const disk = slowDisk(t)
  const small = smallDisk(t)
  const root = temporaryDirectory(t)
  let run = 0
  const law = fc.asyncProperty(fc.array(happening, { minLength: 1, maxLength: 40 }), async (happenings) => {
    const heal = () => {
      Object.assign(disk, { broken: false })
      Object.assign(small, { roomBytes: Number.POSITIVE_INFINITY, canCut: true })
    }
    heal()
    const { file, trail } = trailIn(join(root, String(run++)), { durability: 'synced' })
    let admitted: string[] = []
    const forwarded: string[] = []
    const responded: string[] = []
    let requested = 0
    const take = (line: string) => {
      const outcome = trail.append(line)
      if (!(outcome instanceof Commit)) return
      outcome.whenDone((error) => {
        if (error !== undefined) return
        admitted.push(line)
        forwarded.push(line)
      })
    }
    const respond = (trail: Trail, which: number) => {
      const [line] = admitted.splice(which % Math.max(1, admitted.length), 1)
      if (line === undefined) return
      trail.settle(responseLine(line))?.whenDone((error) => {
        if (error === undefined) responded.push(responseLine(line))
      })
    }
    for (const it of happenings) {
      if (it.what === 'request') take(requestLine(`id-${it.id}-${requested++ % 2}`))
      else if (it.what === 'response') respond(trail, it.which)
      else if (it.what === 'turn') await turn()
      else if (it.what === 'commit') disk.finish()
      else if (it.what === 'disk') disk.broken = it.broken
      else if (it.what === 'room') small.roomBytes = it.bytes
      else if (it.what === 'append-only') small.canCut = it.canCut
      else trail.recheck()
    }
    heal()
    disk.waiting.length = 0
    const survivor = `${file}.lost`
    fs.copyFileSync(file, survivor)
    // A file that was cut since the last commit is shorter than `committedBytes`.
    fs.truncateSync(survivor, Math.min(disk.committedBytes, fs.statSync(survivor).size))
    const again = openTrail({
      file: survivor,
      durability: 'synced',
      onFault: assert.fail,
      onRecord: () => {},
    })
    const text = fs.readFileSync(survivor, 'utf8')
    admitted = []
    for (const [lines, kind] of [
      [forwarded, 'forwarded'],
      [responded, 'responded'],
    ] as const) {
      for (const line of new Set(lines)) {
        const count = (within: readonly string[]) => within.filter((other) => other === line).length
        const found = count(text.split('\n').map((one) => `${one}\n`))
        assert.ok(found >= count(lines), `${kind}: ${found} of ${count(lines)} ${line}`)
      }
    }
    assert.deepEqual(unpaired(linesOf(survivor)), [])
    again.close('end')
    await turn()
    while (disk.finish()) await turn()
    trail.recheck()
    trail.close('end')
  })
  await fc.assert(law, { numRuns: 150 * LONGER })
})

test('each failed sync of a hand-over is reported once', async (t) => {
  const disk = slowDisk(t)
  const { trail, faults } = trailIn(temporaryDirectory(t), { durability: 'synced', isSealed: true })
  const seal = () => {
    disk.broken = true
    return [sealRecord('', 'origin', { type: 'AUDIT_SEAL', size: 1, root: '' })]
  }
  trail.sealWith({ begin() {}, wrote() {}, moved() {}, mends: () => 0, finish: async () => seal() })
  const before = disk.syncs
  assert.equal(await trail.suspend('restart'), undefined)
  assert.equal(disk.syncs - before, 2)
  assert.deepEqual(faults, ['EIO: i/o error, fdatasync'])
  disk.broken = false
  trail.goOn()
  trail.append(requestLine('a'))
  disk.broken = true
  const syncs = disk.syncs
  assert.match(String(await trail.suspend('restart')), /EIO/)
  assert.equal(faults.length - 1, disk.syncs - syncs)
})
