import assert from 'node:assert/strict'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { RFC9068, tokenDialect } from '../config/issuers/token-dialects.ts'
import { mountSmallDisk, NO_SMALL_DISK, type SmallDisk } from '../e2e/small-disk.ts'
import { revokedSessions } from '../edge/rules/response-headers.ts'
import { Field } from '../edge/syntax/field.ts'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { saidBeforeKill } from './killed-process.test-support.ts'
import { REVOCATION_LIFETIME_MS, Revocations, revocationLifetimeMs } from './revocations.ts'
import { readClaims } from './tokens/claims.ts'
import { goodClaims, NOW_MS, RULES } from './tokens/issuer.test-support.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

interface Place {
  readonly dataDir: string
  readonly file: string
  readonly faults: string[]
  readonly time: { nowMs: number }
  /** Plays the start of a gateway. */
  open(): Revocations
}

function place(t: TestContext): Place {
  const dataDir = join(temporaryDirectory(t), 'data')
  const faults: string[] = []
  const time = { nowMs: NOW_MS }
  const open = () =>
    new Revocations({ dataDir, clock: () => time.nowMs, onFault: (cause) => faults.push(cause) })
  return { dataDir, file: join(dataDir, 'revocations.ndjson'), faults, time, open }
}

/** The lines of a file after its header. */
function lines(file: string): unknown[] {
  const [header, ...written] = readFileSync(file, 'utf8').split('\n')
  assert.equal(header, '{"format":"revocations","version":1}')
  return written.filter((line) => line !== '').map((line) => JSON.parse(line))
}

test('only a session that was revoked counts as revoked', (t) => {
  const revocations = place(t).open()
  revocations.revoke('session-1')
  assert.equal(revocations.isRevoked('session-1'), true)
  assert.equal(revocations.isRevoked('session-2'), false)
  assert.equal(revocations.isRevoked(undefined), false)
})

test('a revocation is in the file when revoke returns, readable by its owner alone', (t) => {
  const { open, file, faults } = place(t)
  open().revoke('session-1')
  assert.deepEqual(lines(file), [{ sid: 'session-1', revokedAtMs: NOW_MS }])
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.deepEqual(faults, [])
})

test('a file that others could read is for its owner alone after the start', (t) => {
  const { open, file, dataDir } = place(t)
  mkdirSync(dataDir)
  writeFileSync(file, '', { mode: 0o644 })
  open()
  assert.equal(statSync(file).mode & 0o777, 0o600)
})

test('a restart keeps what was revoked', (t) => {
  const { open, time } = place(t)
  open().revoke('session-1')
  time.nowMs += DAY_MS
  assert.equal(open().isRevoked('session-1'), true)
})

test('a start forgets sessions that no living token can have, by the times in the file alone', (t) => {
  const { open, time, file, dataDir } = place(t)
  mkdirSync(dataDir)
  const line = (sid: string, revokedAtMs: number) => `${JSON.stringify({ sid, revokedAtMs })}\n`
  const youngMs = NOW_MS + DAY_MS + 60_000
  writeFileSync(file, line('old', NOW_MS) + line('middle', NOW_MS + HOUR_MS) + line('young', youngMs))
  time.nowMs = youngMs + DAY_MS
  const after = open()
  assert.equal(after.isRevoked('old'), false)
  assert.equal(after.isRevoked('middle'), true)
  assert.deepEqual(lines(file), [
    { sid: 'middle', revokedAtMs: time.nowMs - DAY_MS - 60_000 + HOUR_MS },
    { sid: 'young', revokedAtMs: time.nowMs },
  ])
})

test('no session comes back after starts with a wrong clock, not even one that ended meanwhile', (t) => {
  const { open, time } = place(t)
  open().revoke('before')
  time.nowMs += 25 * HOUR_MS
  open().revoke('meanwhile')
  assert.equal(open().isRevoked('before'), true)
  time.nowMs -= 25 * HOUR_MS
  const after = open()
  assert.equal(after.isRevoked('before'), true)
  assert.equal(after.isRevoked('meanwhile'), true)
  after.revoke('after')
  time.nowMs += DAY_MS + 60_000
  after.revoke('a-day-later')
  assert.equal(after.size, 1)
})

test('a session is remembered as long as the longest token of any issuer can be accepted', (t) => {
  const issuer = { tokens: RFC9068, clockToleranceMs: 10_000 }
  assert.equal(revocationLifetimeMs([issuer]), REVOCATION_LIFETIME_MS)
  const month = { tokens: tokenDialect({ maxLifetime: '30d' }), clockToleranceMs: 60_000 }
  const lifetimeMs = revocationLifetimeMs([issuer, month, issuer])
  assert.equal(lifetimeMs, 30 * DAY_MS + 120_000)
  const { dataDir, time, faults } = place(t)
  const open = () =>
    new Revocations({ dataDir, clock: () => time.nowMs, onFault: (cause) => faults.push(cause), lifetimeMs })
  const before = open()
  before.revoke('early')
  for (let day = 1; day <= 30; day++) {
    time.nowMs += DAY_MS
    before.revoke(`day-${day}`)
    before.maintain()
    assert.equal(before.isRevoked('early'), true, `day ${day}`)
  }
  const revocations = open()
  assert.equal(revocations.isRevoked('early'), true, 'after a restart')
  time.nowMs += 120_001
  revocations.revoke('late')
  assert.deepEqual([revocations.isRevoked('early'), revocations.isRevoked('day-1')], [false, true])
  assert.deepEqual(faults, [])
})

test('an edit that lets tokens live longer keeps what is remembered, here and at the other gateways', (t) => {
  const { dataDir, time } = place(t)
  const told: number[] = []
  const group = {
    has: () => false,
    publish: () => undefined,
    rememberFor: (lifetimeMs: number) => void told.push(lifetimeMs),
    isKnown: true,
  }
  const revocations = new Revocations({ dataDir, clock: () => time.nowMs, onFault: assert.fail, group })
  revocations.revoke('one')
  time.nowMs += DAY_MS
  revocations.rememberFor(2 * DAY_MS)
  time.nowMs += DAY_MS - 1
  revocations.revoke('two')
  assert.equal(revocations.isRevoked('one'), true)
  revocations.rememberFor(REVOCATION_LIFETIME_MS)
  revocations.revoke('three')
  assert.equal(revocations.isRevoked('one'), false)
  assert.deepEqual(told, [REVOCATION_LIFETIME_MS, 2 * DAY_MS, REVOCATION_LIFETIME_MS])
})

test('memory is bounded by time: what is older than a day goes as new ones come', (t) => {
  const { open, time } = place(t)
  const revocations = open()
  for (let count = 0; count < 500; count++) revocations.revoke(`old-${count}`)
  time.nowMs += DAY_MS + 60_000
  for (let count = 0; count < 100; count++) revocations.revoke(`new-${count}`)
  assert.equal(revocations.size, 100)
  assert.equal(revocations.isRevoked('old-499'), false)
  assert.equal(revocations.isRevoked('new-0'), true)
})

test('a session that is revoked again is remembered from then on', (t) => {
  const { open, time } = place(t)
  const revocations = open()
  revocations.revoke('twice')
  revocations.revoke('once')
  time.nowMs += HOUR_MS
  revocations.revoke('twice')
  time.nowMs = NOW_MS + DAY_MS + 60_000
  revocations.revoke('another')
  assert.equal(revocations.isRevoked('once'), false)
  assert.equal(revocations.isRevoked('twice'), true)
  assert.equal(open().isRevoked('twice'), true)
})

test('the disk holds two days of revocations at most, and every one that counts', (t) => {
  const { open, time, dataDir } = place(t)
  const revocations = open()
  const revokedAtMs = new Map<string, number>()
  for (let hour = 0; hour < 24 * 10; hour++) {
    revocations.revoke(`hour-${hour}`)
    revokedAtMs.set(`hour-${hour}`, time.nowMs)
    time.nowMs += HOUR_MS
  }
  const files = readdirSync(dataDir)
  assert.deepEqual(files.sort(), [
    'revocations.ndjson',
    'revocations.old.ndjson',
    'revocations.reserve.ndjson',
  ])
  assert.ok(files.flatMap((file) => lines(join(dataDir, file))).length <= 50)
  const after = open()
  const newestMs = time.nowMs - HOUR_MS
  for (const [sid, atMs] of revokedAtMs) {
    assert.equal(after.isRevoked(sid), atMs > newestMs - DAY_MS - 60_000, sid)
  }
  assert.deepEqual(readdirSync(dataDir), ['revocations.ndjson', 'revocations.reserve.ndjson'])
})

test('a last line that was cut off is left out and reported, and what follows is not lost', (t) => {
  const { open, file, faults } = place(t)
  open().revoke('session-1')
  appendFileSync(file, '{"sid":"session-2","revo')
  const revocations = open()
  assert.equal(revocations.isRevoked('session-1'), true)
  assert.equal(revocations.isRevoked('session-2'), false)
  assert.deepEqual(faults, [`${file}: the last line was cut off and is left out`])
  revocations.revoke('session-3')
  assert.equal(open().isRevoked('session-3'), true)
  assert.equal(faults.length, 1)
})

test('lines that are no revocations are left out and reported once with their number', (t) => {
  const { open, file, dataDir, faults } = place(t)
  mkdirSync(dataDir)
  const good = JSON.stringify({ sid: 'session-1', revokedAtMs: NOW_MS })
  const garbage = [
    'garbage',
    'null',
    '7',
    '{}',
    '{"sid":7,"revokedAtMs":1}',
    `{"sid":"a","revokedAtMs":"${NOW_MS}"}`,
    `{"sid":"a b","revokedAtMs":${NOW_MS}}`,
  ]
  writeFileSync(file, [good, ...garbage, '', good.replace('1"', '2"'), ''].join('\n'))
  const revocations = open()
  assert.equal(revocations.isRevoked('session-1'), true)
  assert.equal(revocations.isRevoked('session-2'), true)
  assert.equal(revocations.size, 2)
  assert.deepEqual(faults, [`${file}: 7 line(s) that are no revocations are left out, the first is line 2`])
})

test('a revocation with a future time is remembered for no longer than any other', (t) => {
  const { open, file, dataDir, time } = place(t)
  mkdirSync(dataDir)
  writeFileSync(file, `${JSON.stringify({ sid: 'future', revokedAtMs: NOW_MS + 1000 * DAY_MS })}\n`)
  const revocations = open()
  assert.equal(revocations.isRevoked('future'), true)
  time.nowMs += DAY_MS + 60_000
  revocations.revoke('another')
  assert.equal(revocations.isRevoked('future'), false)
})

test('the longest session id that a token of another issuer can carry is revoked, also after a restart', (t) => {
  const { open, faults } = place(t)
  const issuer = `https://${'i'.repeat(248)}`
  const claims = goodClaims({ iss: issuer, sid: 's'.repeat(256) })
  const session = readClaims(claims, { ...RULES, issuer, own: false }, NOW_MS).verification?.principal.session
  assert.equal(session?.length, 513)
  assert.deepEqual(revokedSessions([new Field('X-Revoke-Session', `other, ${session}`)]), ['other', session])
  open().revoke(session as string)
  assert.equal(open().isRevoked(session), true)
  assert.deepEqual(faults, [])
})

test('an id that no token can carry is reported and not written', (t) => {
  const { open, file, faults } = place(t)
  const revocations = open()
  for (const sid of ['', 'a b', 'a\n', 'ü', 'x'.repeat(514)]) revocations.revoke(sid)
  assert.equal(revocations.size, 0)
  assert.deepEqual(lines(file), [])
  assert.equal(faults.length, 5)
})

test('a file that is there and cannot be read stops the start', (t) => {
  const { open, file } = place(t)
  mkdirSync(file, { recursive: true })
  assert.throws(open, /revocations\.ndjson: revoked sessions cannot be read/)
})

test('while the disk refuses, sessions stay revoked in memory, and their lines are written when it is back', (t) => {
  const { open, file, dataDir, faults } = place(t)
  const revocations = open()
  renameSync(dataDir, `${dataDir}-away`)
  writeFileSync(dataDir, 'no directory')
  for (let count = 0; count < 1_500; count++) revocations.revoke(`session-${count}`)
  assert.equal(revocations.isRevoked('session-0'), true)
  assert.equal(faults.length, 1_500)
  assert.match(faults[0]!, /cannot append: .*ENOTDIR/)
  rmSync(dataDir)
  renameSync(`${dataDir}-away`, dataDir)
  revocations.revoke('session-1500')
  assert.equal(faults.length, 1_500)
  assert.equal(lines(file).length, 1_501)
  revocations.revoke('session-1501')
  assert.equal(lines(file).length, 1_502)
  assert.equal(open().isRevoked('session-0'), true)
})

test('a full disk is reported and the line is written when there is room', {
  skip: existsSync('/dev/full') ? false : 'this system has no /dev/full',
}, (t) => {
  const { open, file, faults } = place(t)
  const revocations = open()
  rmSync(file)
  symlinkSync('/dev/full', file)
  revocations.revoke('session-1')
  assert.match(faults[0]!, /cannot append: .*ENOSPC/)
  assert.equal(revocations.isRevoked('session-1'), true)
  rmSync(file)
  revocations.revoke('session-2')
  const after = open()
  assert.equal(after.isRevoked('session-1'), true)
  assert.equal(after.isRevoked('session-2'), true)
})

function smallDisk(t: TestContext): SmallDisk | undefined {
  const disk = mountSmallDisk()
  if (disk === undefined) t.skip(NO_SMALL_DISK)
  else t.after(() => disk.remove())
  return disk
}

for (const stop of ['maintained', 'killed'] as const) {
  for (const freed of [true, false]) {
    test(`on a full disk ${freed ? 'that is freed ' : ''}a revocation outlives a gateway that is ${stop}`, (t) => {
      const disk = smallDisk(t)
      if (disk === undefined) return
      const faults: string[] = []
      const open = () =>
        new Revocations({ dataDir: disk.dir, clock: () => NOW_MS, onFault: (cause) => faults.push(cause) })
      const revocations = open()
      // Fills the page that the file has begun, which would otherwise take some more.
      for (let count = 0; count < 50; count++) revocations.revoke(`filler-${count}`)
      disk.fill()
      const ended = Array.from({ length: 150 }, (_, count) => `session-${count}`)
      for (const sid of ended) assert.equal(revocations.revoke(sid), true, sid)
      assert.equal(revocations.isWritable, false)
      assert.match(faults[0] ?? '', /ENOSPC/)
      if (freed) disk.free()
      if (stop === 'maintained') revocations.maintain()
      assert.equal(revocations.isWritable, freed && stop === 'maintained')
      const after = open()
      assert.deepEqual(
        ended.filter((sid) => !after.isRevoked(sid)),
        [],
      )
    })
  }
}

test('a start on a full disk keeps what is only in the reserve there, also over the next crash', (t) => {
  const disk = smallDisk(t)
  if (disk === undefined) return
  const open = () => new Revocations({ dataDir: disk.dir, clock: () => NOW_MS, onFault: () => {} })
  const revocations = open()
  disk.fill()
  const ended = Array.from({ length: 150 }, (_, count) => `session-${count}`)
  for (const sid of ended) assert.equal(revocations.revoke(sid), true, sid)
  for (let start = 0; start < 3; start++) {
    const started = open()
    started.maintain()
    assert.ok(
      ended.every((sid) => started.isRevoked(sid)),
      `start ${start}`,
    )
    assert.equal(started.isSafe, true)
  }
  disk.free()
  const last = open()
  last.maintain()
  assert.equal(last.isWritable, true)
  assert.equal(lines(join(disk.dir, 'revocations.ndjson')).length, 150)
})

for (const order of ['before', 'after'] as const) {
  test(`on a full disk a session that ends in the old process is safe in the new one, which hears of it ${order} its maintenance`, (t) => {
    const disk = smallDisk(t)
    if (disk === undefined) return
    const open = () => new Revocations({ dataDir: disk.dir, clock: () => NOW_MS, onFault: () => {} })
    const replaced = open()
    const next = open()
    disk.fill()
    // The page that the file has begun still takes some more.
    for (let count = 0; replaced.isWritable; count++) replaced.revoke(`filler-${count}`)
    assert.equal(replaced.revoke('session'), true)
    if (order === 'after') next.maintain()
    next.apply('session', NOW_MS + 1, false)
    next.maintain()
    assert.equal(next.isSafe, true)
    assert.equal(open().isRevoked('session'), true)
  })
}

test('sessions that neither the file nor the reserve takes are not safe until there is room again', (t) => {
  const disk = smallDisk(t)
  if (disk === undefined) return
  const open = () => new Revocations({ dataDir: disk.dir, clock: () => NOW_MS, onFault: () => {} })
  const revocations = open()
  disk.fill()
  const ended = Array.from({ length: 600 }, (_, count) => `session-${count}`)
  assert.equal(ended.map((sid) => revocations.revoke(sid)).at(-1), false)
  assert.equal(revocations.isSafe, false)
  revocations.maintain()
  assert.equal(revocations.isSafe, false)
  disk.free()
  revocations.maintain()
  assert.equal(revocations.isSafe, true)
  assert.equal(revocations.isWritable, true)
  assert.equal(lines(join(disk.dir, 'revocations.ndjson')).length, 600)
  assert.deepEqual(lines(join(disk.dir, 'revocations.reserve.ndjson')), [])
  const after = open()
  assert.ok(ended.every((sid) => after.isRevoked(sid)))
})

test('what is written after a failed write begins on a line of its own', (t) => {
  const { open, file, dataDir } = place(t)
  const revocations = open()
  renameSync(dataDir, `${dataDir}-away`)
  revocations.revoke('session-1')
  renameSync(`${dataDir}-away`, dataDir)
  // As if the failed write had left a part of its line behind.
  appendFileSync(file, '{"sid":"sess')
  revocations.revoke('session-2')
  const after = open()
  assert.equal(after.isRevoked('session-1'), true)
  assert.equal(after.isRevoked('session-2'), true)
})

test('a directory that cannot be made is reported at the start, and revoking goes on in memory', (t) => {
  const { open, dataDir, faults } = place(t)
  symlinkSync(`${dataDir}-nowhere`, dataDir)
  const revocations = open()
  assert.match(faults[0]!, /cannot compact: /)
  revocations.revoke('session-1')
  assert.match(faults[1]!, /cannot append: .*ENOENT/)
  assert.equal(revocations.isRevoked('session-1'), true)
  mkdirSync(`${dataDir}-nowhere`)
  revocations.revoke('session-2')
  assert.equal(open().isRevoked('session-1'), true)
})

test('a torn file that cannot be compacted is continued on a new line', (t) => {
  const { open, file, faults } = place(t)
  open().revoke('session-1')
  appendFileSync(file, '{"sid":"sess')
  mkdirSync(`${file}.tmp`)
  const revocations = open()
  assert.match(faults[1]!, /cannot compact: .*EISDIR/)
  revocations.revoke('session-2')
  rmSync(`${file}.tmp`, { recursive: true })
  const after = open()
  assert.equal(after.isRevoked('session-1'), true)
  assert.equal(after.isRevoked('session-2'), true)
})

test('a file deleted under the gateway is made again, for its owner alone', (t) => {
  const { open, file, faults } = place(t)
  const revocations = open()
  rmSync(file)
  revocations.revoke('session-1')
  assert.deepEqual(faults, [])
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.equal(open().isRevoked('session-1'), true)
})

test('a process that takes its files back, because the other failed, writes into them at once and reports no fault', (t) => {
  const { dataDir, file, time } = place(t)
  const open = () =>
    new Revocations({ dataDir, clock: () => time.nowMs, onFault: assert.fail, onRemoved: assert.fail })
  const revocations = open()
  assert.equal(revocations.revoke('session-1'), true)
  revocations.maintain()
  // The other process replaces the file.
  open()
  revocations.takeBack()
  assert.equal(revocations.revoke('session-2'), true)
  assert.equal(lines(file).length, 2)
  revocations.maintain()
})

test('after kill -9 a session stays revoked if its revocation had returned', async (t) => {
  const { dataDir, open, time } = place(t)
  const returned = await saidBeforeKill(
    t,
    `
import { Revocations } from ${JSON.stringify(new URL('./revocations.ts', import.meta.url).href)}
    const revocations = new Revocations({ dataDir: ${JSON.stringify(dataDir)}, clock: Date.now, onFault: console.error })
    for (let count = 0; ; count++) {
      revocations.revoke('session-' + count)
      say('session-' + count)
    }`,
  )
  time.nowMs = Date.now()
  const after = open()
  assert.deepEqual(
    returned.filter((sid) => !after.isRevoked(sid)),
    [],
  )
})

test('ten thousand sessions that end on a disk that takes nothing hold nobody up for long', (t) => {
  const { open, dataDir } = place(t)
  const revocations = open()
  renameSync(dataDir, `${dataDir}-away`)
  writeFileSync(dataDir, 'no directory')
  const startMs = process.cpuUsage().user / 1000
  for (let count = 0; count < 10_000; count++) revocations.revoke(`session-${count}`)
  const revokedMs = process.cpuUsage().user / 1000
  revocations.maintain()
  const tendedMs = process.cpuUsage().user / 1000
  assert.ok((revokedMs - startMs) / 10_000 < 0.5, `${revokedMs - startMs} ms`)
  assert.ok(tendedMs - revokedMs < 500, `${tendedMs - revokedMs} ms`)
  assert.equal(revocations.isSafe, false)
  rmSync(dataDir)
  renameSync(`${dataDir}-away`, dataDir)
  revocations.maintain()
  assert.equal(revocations.isSafe, true)
  assert.equal(open().size, 10_000)
})

test('sessions beyond those that may wait for the disk are written with all others when it is back', (t) => {
  const { open, dataDir } = place(t)
  const revocations = open()
  renameSync(dataDir, `${dataDir}-away`)
  writeFileSync(dataDir, 'no directory')
  const ended = Array.from({ length: 18_000 }, (_, count) => `${count}-`.padEnd(513, 'x'))
  for (const sid of ended) revocations.revoke(sid)
  rmSync(dataDir)
  renameSync(`${dataDir}-away`, dataDir)
  revocations.maintain()
  assert.deepEqual([revocations.isSafe, revocations.isWritable], [true, true])
  const after = open()
  assert.equal(
    ended.findIndex((sid) => !after.isRevoked(sid)),
    -1,
  )
})

test('a session stays ended while its token is good, when the wall clock is set back meanwhile', (t) => {
  const time = { nowMs: NOW_MS, setBackMs: 0 }
  const revocations = new Revocations({
    dataDir: place(t).dataDir,
    clock: () => time.nowMs,
    wallClock: () => time.nowMs - time.setBackMs,
    onFault: (cause) => assert.fail(cause),
  })
  revocations.revoke('s-1')
  time.setBackMs = 10 * 60_000
  time.nowMs += DAY_MS + 9 * 60_000
  revocations.revoke('s-2')
  assert.equal(revocations.isRevoked('s-1'), true)
  time.nowMs += 2 * 60_000
  revocations.revoke('s-3')
  assert.equal(revocations.isRevoked('s-1'), false)
})
