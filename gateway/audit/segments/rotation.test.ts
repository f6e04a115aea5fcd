import assert from 'node:assert/strict'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { basename, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { responseTo } from '../audit-records.ts'
import { openTrail } from '../open-trail.ts'
import { recover } from '../recovery/recovery.ts'
import { endOf, linesOf, requestLine, temporaryDirectory, unpaired } from '../trail.test-support.ts'
import { Rotation } from './rotation.ts'
import { stampedPath } from './segment.ts'
import { segmentsOfTrail } from './trail-segments.ts'

const BEGIN_MS = Date.UTC(2026, 10, 22, 15)
const HOUR_MS = 3_600_000

/** A trail in a new directory with its rotation, and a clock that the test sets. */
function rotatedTrail(t: TestContext, { durability = 'written' as 'written' | 'synced' } = {}) {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  const clock = { ms: BEGIN_MS }
  const now = () => clock.ms
  const faults: Error[] = []
  const onFault = (error: Error) => faults.push(error)
  const foreign: object[] = []
  const onForeign = (what: object) => foreign.push(what)
  const open = () => openTrail({ file, durability, now, onFault, onForeign, onRecord: () => {} })
  const trail = open()
  t.after(() => trail.close('test'))
  return { file, clock, trail, faults, foreign, open, rotation: new Rotation({ file, trail, now, onFault }) }
}

async function namesOf(file: string): Promise<string[]> {
  return (await segmentsOfTrail(file)).map(({ path }) => basename(path))
}

const SMALL = { maxBytes: 1000, maxAge: undefined }
const HOURLY = { maxBytes: undefined, maxAge: '1h' }

for (const durability of ['written', 'synced'] as const) {
  test(`${durability}: a file that is large enough is closed, and its records are in order over the segments`, async (t) => {
    const { file, clock, trail, faults, rotation } = rotatedTrail(t, { durability })
    const lines = Array.from({ length: 40 }, (_, i) => requestLine(`id-${i}`))
    for (const line of lines) {
      assert.equal(await endOf(trail.append(line)), undefined)
      clock.ms += 1000
      rotation.maintain(SMALL)
    }
    const names = await namesOf(file)
    assert.equal(names.length, 7)
    const all = names.flatMap((name) => linesOf(join(file, '..', name)))
    assert.deepEqual(
      all.filter(({ type }) => type === 'API_REQUEST').map(({ requestId }) => requestId),
      lines.map((_, i) => `id-${i}`),
    )
    assert.deepEqual(faults, [])
  })
}

test('a file is closed when its first record is old enough; a clock that goes backwards a little only delays the closing', async (t) => {
  const { file, clock, trail, rotation, open } = rotatedTrail(t)
  rotation.maintain(HOURLY)
  clock.ms += HOUR_MS - 1
  rotation.maintain(HOURLY)
  assert.deepEqual(await namesOf(file), ['audit.ndjson'])
  trail.close('restart')
  const next = open()
  t.after(() => next.close('test'))
  const after = new Rotation({ file, trail: next, now: () => clock.ms, onFault: assert.fail })
  clock.ms += 1
  after.maintain(HOURLY)
  after.maintain(HOURLY)
  assert.deepEqual(await namesOf(file), ['audit.ndjson.20261122T160000000Z', 'audit.ndjson'])
  clock.ms -= 30_000
  after.maintain(HOURLY)
  clock.ms += HOUR_MS - 1
  after.maintain(HOURLY)
  assert.equal((await namesOf(file)).length, 2)
  clock.ms += 1
  after.maintain(HOURLY)
  assert.equal((await namesOf(file)).length, 3)
})

test('nothing is renamed where no limit is set, after a rename by others, or while another process has the trail', async (t) => {
  const { file, clock, trail, rotation } = rotatedTrail(t)
  clock.ms += HOUR_MS
  rotation.maintain(undefined)
  rotation.maintain({ maxBytes: undefined, maxAge: undefined })
  assert.deepEqual(await namesOf(file), ['audit.ndjson'])
  fs.renameSync(file, `${file}.1`)
  fs.writeFileSync(file, 'not ours yet\n')
  rotation.maintain(HOURLY)
  assert.deepEqual(await namesOf(file), ['audit.ndjson.1', 'audit.ndjson'])
  fs.rmSync(file)
  fs.renameSync(`${file}.1`, file)
  assert.equal(await trail.suspend('restart'), undefined)
  rotation.maintain(HOURLY)
  assert.deepEqual(await namesOf(file), ['audit.ndjson'])
})

test('a file is closed, also without limits, when the clock was set back, and the next says by how much', async (t) => {
  const { file, clock, trail, faults, rotation, open } = rotatedTrail(t)
  const request = (id: string) => requestLine(id, new Date(clock.ms).toISOString())
  const starts = async () =>
    (await namesOf(file)).map((name) => linesOf(join(file, '..', name))[0]?.clockSetBackMs)
  rotation.maintain(undefined)
  clock.ms += 2 * HOUR_MS
  rotation.maintain(undefined)
  clock.ms -= 59_000
  rotation.maintain(undefined)
  assert.deepEqual(await starts(), [undefined])
  const late = request('late')
  assert.equal(await endOf(trail.append(late)), undefined)
  clock.ms -= HOUR_MS
  for (let i = 0; i < 3; i++) rotation.maintain(undefined)
  assert.deepEqual(await starts(), [undefined, HOUR_MS + 59_000])
  // The request of this response began before the clock was set back.
  await endOf(trail.settle(responseTo(late, 200, 1)))
  for (let i = 0; i < 3; i++) rotation.maintain(undefined)
  assert.equal(await endOf(trail.append(request('last'))), undefined)
  trail.close('restart')
  const again = open()
  const second = new Rotation({ file, trail: again, now: () => clock.ms, onFault: assert.fail })
  second.maintain(undefined)
  again.close('restart')
  assert.equal((await starts()).length, 2)
  clock.ms -= HOUR_MS
  const next = open()
  t.after(() => next.close('test'))
  const third = new Rotation({ file, trail: next, now: () => clock.ms, onFault: assert.fail })
  third.maintain(undefined)
  third.maintain(undefined)
  assert.deepEqual(await starts(), [undefined, HOUR_MS + 59_000, HOUR_MS])
  // The name is later than the last one, although the clock is not.
  assert.deepEqual(await namesOf(file), [
    'audit.ndjson.20261122T155901000Z',
    'audit.ndjson.20261122T155901001Z',
    'audit.ndjson',
  ])
  assert.deepEqual(faults, [])
})

test('a file that cannot be renamed when the clock was set back is reported once', async (t) => {
  const { file, clock, trail, faults, rotation } = rotatedTrail(t)
  rotation.maintain(undefined)
  const { renameSync } = fs
  const replace = (rename: typeof fs.renameSync) => {
    fs.renameSync = rename
    syncBuiltinESMExports()
  }
  t.after(() => replace(renameSync))
  replace(() => {
    throw Object.assign(new Error('EPERM: operation not permitted, rename'), { code: 'EPERM' })
  })
  clock.ms -= HOUR_MS
  for (let i = 0; i < 3; i++) rotation.maintain(undefined)
  assert.equal(faults.length, 1)
  assert.match(faults[0]?.message ?? '', /audit\.ndjson/)
  assert.equal(await endOf(trail.append(requestLine('after'))), undefined)
  assert.deepEqual(await namesOf(file), ['audit.ndjson'])
})

test('a file is closed however many names lie beside it', async (t) => {
  const { file, clock, faults, rotation } = rotatedTrail(t)
  rotation.maintain(undefined)
  const { readdirSync } = fs
  const names = Array.from({ length: 300_000 }, (_, i) =>
    basename(stampedPath(file, BEGIN_MS - 1_000_000 + i)),
  )
  const replace = (read: typeof fs.readdirSync) => {
    fs.readdirSync = read
    syncBuiltinESMExports()
  }
  t.after(() => replace(readdirSync))
  replace((() => names) as unknown as typeof readdirSync)
  clock.ms += HOUR_MS
  rotation.maintain(HOURLY)
  replace(readdirSync)
  assert.deepEqual(faults, [])
  assert.deepEqual(await namesOf(file), ['audit.ndjson.20261122T160000000Z', 'audit.ndjson'])
})

test('a new file that cannot be opened is tried again each second, for minutes, and meanwhile the records go to the renamed one', async (t) => {
  const { file, clock, trail, faults, foreign, rotation } = rotatedTrail(t)
  clock.ms += HOUR_MS
  const { openSync } = fs
  const full = () => {
    throw Object.assign(new Error('ENOSPC: no space left on device, open'), { code: 'ENOSPC' })
  }
  const replace = (open: typeof fs.openSync) => {
    fs.openSync = open
    syncBuiltinESMExports()
  }
  t.after(() => replace(openSync))
  rotation.maintain(undefined)
  replace(full as typeof openSync)
  for (let seconds = 0; seconds < 120; seconds += 30) {
    clock.ms += 30_000
    trail.maintain()
    rotation.maintain(HOURLY)
  }
  replace(openSync)
  assert.equal(await endOf(trail.append(requestLine('meanwhile'))), undefined)
  assert.deepEqual([fs.existsSync(file), faults.length], [false, 4])
  clock.ms += 30_000
  trail.maintain()
  rotation.maintain(HOURLY)
  assert.equal(await endOf(trail.append(requestLine('after'))), undefined)
  const names = await namesOf(file)
  assert.deepEqual(names, ['audit.ndjson.20261122T160030000Z', 'audit.ndjson'])
  assert.deepEqual(foreign, [])
  const ids = names.map((name) => linesOf(join(file, '..', name)).flatMap(({ requestId }) => requestId ?? []))
  assert.deepEqual(ids, [['meanwhile'], ['after']])
})

test('a process that is killed at any step of a rotation loses nothing: the next start goes on', async (t) => {
  const { file, clock, trail } = rotatedTrail(t)
  await endOf(trail.append(requestLine('open')))
  trail.close('a crash writes no such line')
  const text = fs.readFileSync(file, 'utf8')
  const crashed = text.slice(0, text.indexOf('{"type":"AUDIT_STOP"'))
  const renamed = `${file}.20261122T160000000Z`
  const steps: [string, Record<string, string>][] = [
    ['renamed', { [renamed]: crashed }],
    ['new file', { [renamed]: crashed, [file]: '' }],
    [
      'old file ended',
      { [renamed]: text.replace('"reason":"a crash writes no such line"', '"reason":"rotated"'), [file]: '' },
    ],
  ]
  for (const [step, files] of steps) {
    for (const path of [file, renamed]) fs.rmSync(path, { force: true })
    for (const [path, content] of Object.entries(files)) fs.writeFileSync(path, content)
    // A killed compression has left this newer file.
    fs.writeFileSync(`${renamed}.zst.tmp`, 'half')
    assert.equal(recover(file).records.length, 1, step)
    const next = openTrail({ file, now: () => clock.ms, onFault: assert.fail, onRecord: () => {} })
    next.close('test')
    const lines = (await namesOf(file)).flatMap((name) => linesOf(join(file, '..', name)))
    assert.deepEqual(unpaired(lines), [], step)
  }
})
