import assert from 'node:assert/strict'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { basename, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as afterMs } from 'node:timers/promises'
import { zstdCompressSync } from 'node:zlib'
import { responseTo } from '../audit-records.ts'
import { openTrail } from '../open-trail.ts'
import { logDirectory } from '../seals/tiles.ts'
import { endOf, linesOf, requestLine, temporaryDirectory } from '../trail.test-support.ts'
import { compressSegment } from './compress-segment.ts'
import { keeperOf, keepingOf } from './keeper.test-support.ts'
import { type AuditKeeping, removeDrafts } from './keeper.ts'
import { blocksOf } from './read-segment.ts'
import { Rotation } from './rotation.ts'
import { sealTrail } from './sealed-trail.test-support.ts'
import { SealedTree } from './sealed-tree.ts'
import { SegmentThread } from './segment-thread.ts'
import { keepKnownTime } from './steady-wall-clock.ts'
import { segmentsOfTrail } from './trail-segments.ts'

const DAY_MS = 86_400_000
const BEGIN_MS = Date.UTC(2026, 0, 1)
const COMPRESS: Partial<AuditKeeping> = {
  rotation: { maxBytes: undefined, maxAge: undefined, compress: 'zstd' },
}
const keepDays = (days: number, unsealed = false): Partial<AuditKeeping> => ({
  retention: { keep: `${days}d`, unsealed },
})

/** A trail whose segments are a day each, with `pairs` pairs. */
async function trailOfDays(
  t: TestContext,
  { days, pairs = 1, dir = temporaryDirectory(t) }: { days: number; pairs?: number; dir?: string },
) {
  const file = join(dir, 'audit.ndjson')
  const clock = { ms: BEGIN_MS }
  const now = () => clock.ms
  // `keeperOf` appends records without this trail.
  const trail = openTrail({ file, now, onFault: () => {}, onRecord: () => {} })
  t.after(() => trail.close('test'))
  const rotation = new Rotation({ file, trail, now, onFault: assert.fail })
  const daily = { maxBytes: undefined, maxAge: '1d' }
  rotation.maintain(daily)
  for (let day = 0; day < days; day++) {
    let last: Parameters<typeof endOf>[0]
    for (let i = 0; i < pairs; i++) {
      const line = requestLine(`day-${day}-${i}`, new Date(clock.ms + i).toISOString())
      trail.append(line)
      last = trail.settle(responseTo(line, 200, 1))
    }
    await endOf(last)
    clock.ms += DAY_MS
    rotation.maintain(daily)
    rotation.maintain(daily)
  }
  return { file, clock, trail, ...keeperOf(file, now) }
}

async function namesOf(file: string): Promise<string[]> {
  return (await segmentsOfTrail(file)).map(({ path }) => basename(path).slice('audit.ndjson'.length))
}

async function seal(file: string): Promise<number> {
  return sealTrail(
    file,
    (await segmentsOfTrail(file)).map(({ path }) => path),
  )
}

async function textOf(path: string, compression: 'none' | 'zstd'): Promise<string> {
  const blocks = []
  for await (const block of blocksOf({ path, compression })) blocks.push(block)
  return Buffer.concat(blocks).toString()
}

test('a closed segment is compressed when it is sealed, to the same bytes', async (t) => {
  const { file, told, round } = await trailOfDays(t, { days: 2, pairs: 300 })
  const [first = '', second = ''] = (await segmentsOfTrail(file)).map(({ path }) => path)
  const text = fs.readFileSync(first, 'utf8')
  // A leaf of the next segment must be in the log too.
  sealTrail(file, [first])
  await round(COMPRESS)
  assert.deepEqual(told, [])
  sealTrail(file, [first, second])
  const later = keeperOf(file, () => BEGIN_MS)
  await later.round(COMPRESS)
  assert.deepEqual(later.told, ['compress'])
  assert.deepEqual(await namesOf(file), ['.20260102T000000000Z.zst', '.20260103T000000000Z', ''])
  assert.equal(await textOf(`${first}.zst`, 'zstd'), text)
  assert.equal(fs.statSync(`${first}.zst`).mode & 0o777, 0o600)
})

test('a segment with a request that is still open is neither compressed nor removed', async (t) => {
  const { file } = await trailOfDays(t, { days: 1 })
  const [first = ''] = (await segmentsOfTrail(file)).map(({ path }) => path)
  const { told, round } = keeperOf(file, () => BEGIN_MS + 9 * DAY_MS, {
    needed: async () => new Set([first]),
  })
  await round({ ...COMPRESS, ...keepDays(1, true) })
  assert.match(
    told.join(),
    /^prune failed: audit.ndjson.20260102T000000000Z is to be removed, but a request .* still open$/,
  )
  assert.deepEqual(await namesOf(file), ['.20260102T000000000Z', ''])
})

test('open requests are looked for once a round for all segments, and rarely while a request is long', async (t) => {
  const { file } = await trailOfDays(t, { days: 4 })
  const steady = { ms: 0 }
  t.mock.method(performance, 'now', () => steady.ms)
  const paths = (await segmentsOfTrail(file)).slice(0, -1).map(({ path }) => path)
  const needed = new Set(paths.slice(1))
  let looks = 0
  const { told, round } = keeperOf(file, () => BEGIN_MS + 99 * DAY_MS, {
    needed: async () => {
      looks++
      return needed
    },
  })
  // In two hours of rounds the keeper looks at once, after 2 s, 4 s and so on, in the end every five minutes.
  for (; steady.ms < 7_200_000; steady.ms += 5000) await round(COMPRESS)
  assert.deepEqual(told.splice(0), ['compress'])
  assert.ok(looks <= 32, String(looks))
  needed.clear()
  steady.ms += 300_000
  await round(COMPRESS)
  assert.deepEqual(told.splice(0), ['compress', 'compress', 'compress'])
  looks = 0
  await round(keepDays(1, true))
  assert.deepEqual([told, looks], [['prune', 'prune', 'prune', 'prune'], 1])
})

test('a compression that was killed at any step is finished by the next, and a bad copy never takes the place of a segment', async (t) => {
  const { file } = await trailOfDays(t, { days: 1 })
  const [first = ''] = (await segmentsOfTrail(file)).map(({ path }) => path)
  const text = fs.readFileSync(first, 'utf8')
  fs.writeFileSync(`${first}.zst.tmp`, 'half')
  removeDrafts(file)
  assert.ok(!fs.existsSync(`${first}.zst.tmp`))
  // One copy has other bytes, one cannot be read. Neither is ours, and another program may still write them.
  for (const copy of [zstdCompressSync(`${text} `), zstdCompressSync(text).subarray(0, 40)]) {
    fs.writeFileSync(`${first}.zst`, copy)
    const { told, round } = keeperOf(file, () => BEGIN_MS)
    await round(COMPRESS)
    assert.match(told.join(), /^compress failed: audit file .*2026.*\.zst is there already, and /)
    assert.deepEqual(
      [fs.readFileSync(first, 'utf8'), fs.readFileSync(`${first}.zst`).equals(copy)],
      [text, true],
    )
  }
  // The compression was killed after the rename.
  fs.writeFileSync(`${first}.zst`, zstdCompressSync(text))
  const { told, round } = keeperOf(file, () => BEGIN_MS)
  await round(COMPRESS)
  assert.deepEqual([told, fs.existsSync(first)], [['compress'], false])
  assert.equal(await textOf(`${first}.zst`, 'zstd'), text)
})

test('a segment that another program compresses at the same time is not lost', async (t) => {
  const { file } = await trailOfDays(t, { days: 1 })
  const [first = ''] = (await segmentsOfTrail(file)).map(({ path }) => path)
  const text = fs.readFileSync(first, 'utf8')
  // `zstd --rm` has made its copy, and removes the segment while ours is compared.
  fs.writeFileSync(`${first}.zst`, zstdCompressSync(text))
  fs.rmSync(first)
  await assert.rejects(compressSegment(first), /ENOENT/)
  assert.equal(await textOf(`${first}.zst`, 'zstd'), text)
})

/** Syncs, renames and removals during `run`, in order. */
async function stepsOf(path: string, run: () => Promise<void>): Promise<string[]> {
  const steps: string[] = []
  const { fsync, fsyncSync, renameSync, unlinkSync } = fs
  const { ino } = fs.statSync(path)
  const synced = (fd: number) => {
    const stats = fs.fstatSync(fd)
    steps.push(`sync ${stats.isDirectory() ? 'directory' : stats.ino === ino ? 'segment' : 'copy'}`)
  }
  Object.assign(fs, {
    fsync: (fd: number, done: fs.NoParamCallback) => {
      fsync(fd, (error) => {
        synced(fd)
        done(error)
      })
    },
    fsyncSync: (fd: number) => {
      fsyncSync(fd)
      synced(fd)
    },
    renameSync: (from: string, to: string) => {
      steps.push(`rename to ${basename(to)}`)
      renameSync(from, to)
    },
    unlinkSync: (removed: string) => {
      if (fs.existsSync(removed)) steps.push(`remove ${basename(removed)}`)
      unlinkSync(removed)
    },
  })
  syncBuiltinESMExports()
  try {
    await run()
  } finally {
    Object.assign(fs, { fsync, fsyncSync, renameSync, unlinkSync })
    syncBuiltinESMExports()
  }
  return steps
}

test('the disk has the compressed copy before the segment is removed, whoever has made it', async (t) => {
  const { file } = await trailOfDays(t, { days: 2 })
  const [own = '', found = ''] = (await segmentsOfTrail(file)).map(({ path }) => path)
  assert.deepEqual(await stepsOf(own, () => compressSegment(own)), [
    'sync copy',
    `rename to ${basename(own)}.zst`,
    'sync directory',
    `remove ${basename(own)}`,
    'sync directory',
  ])
  fs.writeFileSync(`${found}.zst`, zstdCompressSync(fs.readFileSync(found)))
  assert.deepEqual(await stepsOf(found, () => compressSegment(found)), [
    'sync copy',
    'sync directory',
    `remove ${basename(found)}`,
    'sync directory',
  ])
})

test('when their time is over, segments are named in the trail and then removed, and the tree stays whole', async (t) => {
  const { file, clock, told, round } = await trailOfDays(t, { days: 4, pairs: 300 })
  const before = await segmentsOfTrail(file)
  const lines = before.map(({ path }) => linesOf(path).length)
  await seal(file)
  await round(COMPRESS)
  clock.ms = BEGIN_MS + 4 * DAY_MS
  await round(keepDays(2))
  assert.deepEqual(told, ['compress', 'compress', 'compress', 'compress', 'prune', 'prune'])
  assert.deepEqual(await namesOf(file), ['.20260104T000000000Z.zst', '.20260105T000000000Z.zst', ''])
  const records = linesOf(file).filter(({ type }) => type === 'AUDIT_PRUNE')
  const [one = 0, two = 0] = lines
  assert.deepEqual(
    records.map(({ segment, first, last, from, until }) => [segment, first, last, from, until]),
    [
      [
        'audit.ndjson.20260102T000000000Z.zst',
        0,
        one - 1,
        '2026-01-01T00:00:00.000Z',
        '2026-01-02T00:00:00.000Z',
      ],
      [
        'audit.ndjson.20260103T000000000Z.zst',
        one,
        one + two - 1,
        '2026-01-02T00:00:00.000Z',
        '2026-01-03T00:00:00.000Z',
      ],
    ],
  )
  // The tiles of the lines that are left are there, and no tile that ends before these lines.
  const tree = SealedTree.of(file)
  assert.equal(tree?.firstLeaf, Math.floor((one + two) / 256) * 256)
  const left = (await segmentsOfTrail(file)).at(0)
  assert.ok(left)
  const range = { first: one + two, last: one + two + (lines[2] ?? 0) - 1 }
  assert.deepEqual(await tree.rangeOf(left, 'beginning'), range)
  // A hint may be older than the pruning.
  assert.ok(tree.firstLeaf > 0)
  assert.deepEqual(await tree.rangeOf(left, 'end', 0), range)
  assert.deepEqual(fs.readdirSync(join(logDirectory(file), 'tile/0')).length > 0, true)
  assert.ok(fs.existsSync(join(logDirectory(file), 'tile/1/000.p')))
})

test('each tile is read only a few times, however many segments are removed at once', async (t) => {
  const { file, clock, told, round } = await trailOfDays(t, { days: 12, pairs: 640 })
  const tiles = Math.ceil((await seal(file)) / 256)
  const { openSync } = fs
  const put = (open: typeof openSync) => {
    Object.assign(fs, { openSync: open })
    syncBuiltinESMExports()
  }
  let opened = 0
  put((path, ...rest) => {
    if (String(path).includes('/tile/0/')) opened++
    return openSync(path, ...rest)
  })
  t.after(() => put(openSync))
  clock.ms = BEGIN_MS + 400 * DAY_MS
  await round(COMPRESS)
  const compressing = opened
  await round(keepDays(30))
  assert.equal(told.length, 24)
  assert.ok(
    compressing < 3 * tiles && opened - compressing < 3 * tiles,
    `${compressing} and ${opened} of ${tiles}`,
  )
})

test('the record of a removal has the time of the machine, even if retention does not believe that time', async (t) => {
  const { file } = await trailOfDays(t, { days: 1 })
  const believedMs = BEGIN_MS + 9 * DAY_MS
  const wallMs = believedMs + 700 * DAY_MS
  const { told, round } = keeperOf(file, () => believedMs, { wallNow: () => wallMs })
  await round(keepDays(5, true))
  assert.deepEqual(told, ['prune'])
  assert.equal(linesOf(file).at(-1)?.timestamp, new Date(wallMs).toISOString())
})

test('a segment whose content is not sealed is not removed, nor anything after it', async (t) => {
  const { file, clock } = await trailOfDays(t, { days: 3, pairs: 5 })
  clock.ms = BEGIN_MS + 400 * DAY_MS
  const attempt = async (keeping: Partial<AuditKeeping>) => {
    const { told, round } = keeperOf(file, () => clock.ms)
    await round(keeping)
    return told.join()
  }
  assert.match(await attempt(keepDays(30)), /20260102T000000000Z is to be removed, but nothing is sealed/)
  const [first = '', second = ''] = (await segmentsOfTrail(file)).map(({ path }) => path)
  await seal(file)
  const text = fs.readFileSync(first, 'utf8')
  fs.writeFileSync(first, text.replace('"GET"', '"PUT"'))
  assert.match(
    await attempt(keepDays(30)),
    /20260102T000000000Z is to be removed, but what it holds now is not sealed/,
  )
  fs.writeFileSync(first, text)
  sealTrail(file, [first, second])
  assert.match(
    await attempt(keepDays(30)),
    /^prune,prune failed: .*20260103T000000000Z is to be removed, but what it holds now is not sealed/,
  )
  assert.deepEqual(await namesOf(file), ['.20260103T000000000Z', '.20260104T000000000Z', ''])
})

for (const what of ['copied', 'renamed', 'linked']) {
  test(`a segment that somebody has ${what} to an older name is not removed before its time, nor anything after it`, async (t) => {
    const { file, clock, told, round } = await trailOfDays(t, { days: 3, pairs: 300 })
    clock.ms = BEGIN_MS + 31 * DAY_MS + 1
    await seal(file)
    const segments = (await segmentsOfTrail(file)).map(({ path }) => path)
    const older = `${file}.20251231T000000000Z`
    if (what === 'renamed') fs.renameSync(segments[2] ?? '', older)
    if (what === 'linked') fs.linkSync(segments[2] ?? '', older)
    if (what === 'copied') fs.copyFileSync(segments[2] ?? '', older)
    const names = await namesOf(file)
    await round(keepDays(30))
    assert.match(
      told.join(),
      /^prune failed: audit\.ndjson\.20251231T000000000Z is to be removed, but its lines come after those of audit\.ndjson\.20260102T/,
    )
    assert.deepEqual(await namesOf(file), names)
    assert.ok(fs.existsSync(join(logDirectory(file), 'tile/0/000')))
    fs.rmSync(older)
    told.splice(0)
    await keeperOf(file, () => clock.ms).round(keepDays(30))
    assert.equal(fs.existsSync(segments[0] ?? ''), false)
  })
}

test('segments without seals are removed only if configuration allows it and the trail can record it', async (t) => {
  const { file, clock, told, round } = await trailOfDays(t, { days: 2 })
  clock.ms = BEGIN_MS + 400 * DAY_MS
  const full = keeperOf(file, () => clock.ms, {
    record: () => Promise.reject(new Error('the audit trail cannot be written')),
  })
  const keeping = keepDays(30, true)
  await full.round(keeping)
  assert.deepEqual(
    [full.told, (await namesOf(file)).length],
    [['prune failed: the audit trail cannot be written'], 3],
  )
  await round(keeping)
  assert.deepEqual([told, await namesOf(file)], [['prune', 'prune'], ['']])
})

test('segments and drafts of a trail whose name begins like this one are left alone', async (t) => {
  const { file, clock, told, round } = await trailOfDays(t, { days: 2 })
  const other = `${file}2.20260101T000010000Z`
  fs.writeFileSync(other, requestLine('of another trail'))
  fs.writeFileSync(`${other}.zst.tmp`, 'a draft')
  clock.ms = BEGIN_MS + 400 * DAY_MS
  removeDrafts(file)
  await round(keepDays(30, true))
  assert.deepEqual([told, await namesOf(file)], [['prune', 'prune'], ['']])
  assert.deepEqual([fs.existsSync(other), fs.existsSync(`${other}.zst.tmp`)], [true, true])
})

test('after seals were switched off, the old log keeps no segment from being compressed and removed', async (t) => {
  const { file, clock, told, round } = await trailOfDays(t, { days: 4 })
  const [first = '', second = '', third = ''] = (await segmentsOfTrail(file)).map(({ path }) => path)
  const lines = linesOf(first).length
  // The log ends within a segment.
  const begun = join(temporaryDirectory(t), 'begun')
  fs.writeFileSync(begun, `${fs.readFileSync(third, 'utf8').split('\n')[0]}\n`)
  sealTrail(file, [first, second, begun])
  const off = { seals: 'off' } as const
  await round({ ...COMPRESS, ...off })
  assert.deepEqual(told.splice(0), ['compress', 'compress', 'compress', 'compress'])
  clock.ms += 99 * DAY_MS
  await keeperOf(file, () => clock.ms).round({ ...keepDays(1), ...off })
  assert.equal((await namesOf(file)).length, 5)
  await round({ ...keepDays(1, true), ...off })
  assert.deepEqual([told, await namesOf(file)], [['prune', 'prune', 'prune', 'prune'], ['']])
  const records = linesOf(file).filter(({ type }) => type === 'AUDIT_PRUNE')
  assert.deepEqual(
    records.map(({ first: from, last }) => [from, last]),
    [
      [0, lines - 1],
      [lines, 2 * lines - 1],
      [undefined, undefined],
      [undefined, undefined],
    ],
  )
})

test('the thread compresses and removes what a trail in use has closed', async (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  const trail = openTrail({ file, onFault: assert.fail, onRecord: () => {} })
  t.after(() => trail.close('test'))
  const open = requestLine('open')
  await endOf(trail.append(open))
  const told: string[] = []
  const thread = new SegmentThread(trail, {
    info: () => {},
    warn: () => {},
    done: (task) => told.push(task),
    unshipped: () => {},
    failed: (task, cause) => told.push(`${task}: ${cause}`),
  })
  const rotate = (stamp: string) => {
    fs.renameSync(file, `${file}.${stamp}`)
    trail.reopen()
  }
  rotate('20200101T000000000Z')
  await endOf(trail.append(requestLine('later')))
  // An earlier process has kept this time. Without it, the clock would not be believed so long after a rotation.
  keepKnownTime(file, Date.now())
  const round = async (isDone: () => boolean) => {
    while (!isDone()) {
      thread.round({ ...keepingOf(file), ...COMPRESS })
      await afterMs(20)
    }
  }
  // The segment has an open request, so it stays until that has its response.
  const names = () => fs.readdirSync(join(file, '..')).sort()
  await round(() => names().includes('audit.ndjson.segments.lock'))
  assert.ok(names().includes('audit.ndjson.20200101T000000000Z'))
  await endOf(trail.settle(responseTo(open, 200, 1)))
  await round(() => told.length > 0)
  assert.deepEqual(told.splice(0), ['compress'])
  assert.ok(names().includes('audit.ndjson.20200101T000000000Z.zst'))
  while (told.length === 0) {
    thread.round({ ...keepingOf(file), ...keepDays(1, true) })
    await afterMs(20)
  }
  assert.deepEqual([told, (await namesOf(file)).length], [['prune'], 1])
  assert.equal(linesOf(file).at(-1)?.type, 'AUDIT_PRUNE')
})

test('a draft of a killed process that cannot be removed does not end the guard against a wrong clock', async (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  const trail = openTrail({ file, onFault: assert.fail, onRecord: () => {} })
  t.after(() => trail.close('test'))
  fs.renameSync(file, `${file}.20200101T000000000Z`)
  trail.reopen()
  fs.mkdirSync(`${file}.20200101T000000000Z.zst.tmp`)
  // An earlier process has kept this time, so the clock of the machine is not believed.
  keepKnownTime(file, Date.UTC(2020, 0, 1, 12))
  const told: string[] = []
  const thread = new SegmentThread(trail, {
    info: () => {},
    warn: (_, message) => told.push(message),
    done: (task) => told.push(task),
    unshipped: () => {},
    failed: (task, cause) => told.push(`${task} failed: ${cause}`),
  })
  while (!told.some((one) => one === 'prune' || one.includes('went forward'))) {
    thread.round({ ...keepingOf(file), ...keepDays(1, true) })
    await afterMs(20)
  }
  assert.match(told.join(), /^compress failed: .*the clock of this machine went forward/)
  assert.equal(told.includes('prune'), false)
  assert.equal((await namesOf(file)).length, 2)
})

test('after shipping was switched off, no segment waits for it', async (t) => {
  const { file, trail } = await trailOfDays(t, { days: 1 })
  const waiting: number[] = []
  const thread = new SegmentThread(trail, {
    info: () => {},
    warn: () => {},
    done: () => {},
    unshipped: (count) => waiting.push(count),
    failed: () => {},
  })
  const roundUntil = async (count: number, keeping: Partial<AuditKeeping>) => {
    while (waiting.at(-1) !== count) {
      thread.round({ ...keepingOf(file), ...keeping })
      await afterMs(20)
    }
  }
  await roundUntil(1, { ship: { directory: join(file, 'not mounted'), s3: undefined } })
  await roundUntil(0, {})
})
