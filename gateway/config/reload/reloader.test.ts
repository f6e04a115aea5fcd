import assert from 'node:assert/strict'
import { mkdtempSync, renameSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import type { Limits } from '../../limits/table/limit-table.ts'
import { parseLimits } from '../../limits/table/limits-file.ts'
import { describeFault } from '../faults.ts'
import { loadFile } from '../load-file.ts'
import { oneFile, type Reload, Reloader } from './reloader.ts'

function table(limit: number): string {
  return JSON.stringify({
    limits: [{ path: '/api/login', limit, window: '1m', purpose: 'Test', methods: ['POST'] }],
  })
}

/** A reloader of a limit table in a real file, which looks only when it is told to. */
function reloaderOf(
  t: TestContext,
  limit: number,
  swap: (limits: Limits) => void = () => {},
  { parse = parseLimits, intervalMs = 3_600_000 } = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'reload-'))
  const file = join(folder, 'limits.json')
  writeFileSync(file, table(limit))
  const loaded = loadFile(file, parseLimits)
  assert.ok(loaded.value)
  const told: Reload<Limits>[] = []
  const inForce: number[] = []
  const reloader = new Reloader<Limits>({
    ...oneFile(file, loaded.value, parse),
    swap: (limits) => {
      swap(limits)
      inForce.push(limits.rows[0]?.limit ?? 0)
    },
    onReload: (reload) => told.push(reload),
    intervalMs,
  })
  t.after(() => {
    reloader.stop()
    rmSync(folder, { recursive: true, force: true })
  })
  const look = async (times: number) => {
    for (let count = 0; count < times; count++) await reloader.check()
  }
  return { file, told, inForce, look, reloader }
}

test('a file that did not change is not reloaded', async (t) => {
  const { told, look } = reloaderOf(t, 5)
  await look(3)
  assert.deepEqual(told, [])
})

test('a good file is put in force at the first look, and told with the rows before and after', async (t) => {
  const { file, told, inForce, look } = reloaderOf(t, 5)
  writeFileSync(file, table(6))
  await look(1)
  assert.deepEqual(inForce, [6])
  const [reload] = told
  assert.ok(reload?.result === 'success' && reload.changed)
  assert.deepEqual([reload.before.rows[0]?.limit, reload.after.rows[0]?.limit], [5, 6])
  await look(2)
  assert.equal(told.length, 1)
})

test('a report has as `before` what the last edit put in force', async (t) => {
  const { file, told, look } = reloaderOf(t, 5)
  writeFileSync(file, table(6))
  await look(1)
  writeFileSync(`${file}.new`, table(7))
  renameSync(`${file}.new`, file)
  await look(1)
  const [, second] = told
  assert.ok(second?.result === 'success')
  assert.deepEqual([second.before.rows[0]?.limit, second.after.rows[0]?.limit], [6, 7])
})

test('a bad file is called bad at the second look, once, and changes nothing', async (t) => {
  const { file, told, inForce, look } = reloaderOf(t, 5)
  writeFileSync(file, table(0))
  await look(1)
  assert.equal(told.length, 0)
  await look(4)
  assert.equal(told.length, 1)
  assert.ok(told[0]?.result === 'failure')
  assert.deepEqual(told[0].faults.map(describeFault), [
    `${file}: $.limits[0].limit: must be between 1 and 1000000000, but is 0 (line 1)`,
  ])
  assert.deepEqual(inForce, [])
})

test('a half-written file that is whole at the next look is one change and no failure', async (t) => {
  const { file, told, inForce, look } = reloaderOf(t, 5)
  writeFileSync(file, table(6).slice(0, 30))
  await look(1)
  writeFileSync(file, table(6).slice(0, 60))
  await look(1)
  writeFileSync(file, table(6))
  await look(3)
  assert.deepEqual(
    told.map(({ result }) => result),
    ['success'],
  )
  assert.deepEqual(inForce, [6])
})

test('a file that is bad after a good look needs two bad looks again before it is a failure', async (t) => {
  const { file, told, look } = reloaderOf(t, 5)
  for (const text of ['{', table(6), '{']) {
    writeFileSync(file, text)
    await look(1)
  }
  assert.deepEqual(
    told.map(({ result }) => result),
    ['success'],
  )
})

test('the text in force, written again after a bad one, is a success but no change', async (t) => {
  const { file, told, inForce, look } = reloaderOf(t, 5)
  writeFileSync(file, '{')
  await look(2)
  writeFileSync(file, table(5))
  await look(1)
  assert.deepEqual(
    told.map(({ result }) => result),
    ['failure', 'success'],
  )
  assert.ok(told[1]?.result === 'success' && !told[1].changed)
  assert.deepEqual(inForce, [])
})

test('the same bad file after a good one is told again', async (t) => {
  const { file, told, look } = reloaderOf(t, 5)
  for (const text of ['{', table(6), '{']) {
    writeFileSync(file, text)
    await look(2)
  }
  assert.deepEqual(
    told.map(({ result }) => result),
    ['failure', 'success', 'failure'],
  )
})

test('another spelling of what is in force is a success but no change', async (t) => {
  const { file, told, inForce, look } = reloaderOf(t, 5)
  writeFileSync(file, JSON.stringify(JSON.parse(table(5)), null, 2))
  await look(2)
  assert.equal(told.length, 1)
  assert.ok(told[0]?.result === 'success' && !told[0].changed)
  assert.deepEqual(inForce, [])
})

test('a file that is gone is a failure, and a success when it is back', async (t) => {
  const { file, told, look } = reloaderOf(t, 5)
  unlinkSync(file)
  await look(3)
  assert.equal(told.length, 1)
  assert.ok(told[0]?.result === 'failure')
  assert.match(told[0].faults[0]?.reason ?? '', /^cannot be read: ENOENT/)
  writeFileSync(file, table(5))
  await look(1)
  assert.equal(told[1]?.result, 'success')
})

test('a value that cannot be put in force is a failure, and the one before stays', async (t) => {
  const { file, told, look } = reloaderOf(t, 5, ({ rows: [row] }) => {
    if (row?.limit === 6) throw new Error('no room')
  })
  writeFileSync(file, table(6))
  await look(1)
  assert.ok(told[0]?.result === 'failure')
  assert.equal(told[0].faults[0]?.reason, 'cannot be put in force: no room')
  writeFileSync(file, table(7))
  await look(1)
  assert.ok(told[1]?.result === 'success')
  assert.equal(told[1].before.rows[0]?.limit, 5)
})

test('a text that failed is parsed again at each check, and only another result is told', async (t) => {
  let reason = 'names a file that is away'
  const parse: typeof parseLimits = (file, text) =>
    reason === '' ? parseLimits(file, text) : { faults: [{ file, path: '$', reason }] }
  const { file, told, look } = reloaderOf(t, 5, undefined, { parse })
  writeFileSync(file, table(6))
  await look(6)
  assert.equal(told.length, 1)
  reason = 'names a file that is faulty'
  await look(6)
  assert.equal(told.length, 2)
  reason = ''
  await look(1)
  assert.deepEqual(
    told.map(({ result }) => result),
    ['failure', 'failure', 'success'],
  )
})

test('a text that failed is parsed again after a time, without a call of check', async (t) => {
  let isThere = false
  const later = Promise.withResolvers<void>()
  const parse: typeof parseLimits = (file, text) =>
    isThere ? parseLimits(file, text) : { faults: [{ file, path: '$', reason: 'names a file that is away' }] }
  const { file, told } = reloaderOf(t, 5, () => later.resolve(), { parse, intervalMs: 5 })
  // A waiting reloader does not keep the process alive.
  const hold = setInterval(() => {}, 1000)
  t.after(() => clearInterval(hold))
  writeFileSync(file, table(6))
  while (told.length === 0) await setTimeout(5)
  isThere = true
  await later.promise
  assert.deepEqual(
    told.map(({ result }) => result),
    ['failure', 'success'],
  )
})

test('a value that could not be put in force is tried again, and its success is told', async (t) => {
  let hasRoom = false
  const { file, told, look } = reloaderOf(t, 5, () => {
    if (!hasRoom) throw new Error('no room')
  })
  writeFileSync(file, table(6))
  await look(3)
  hasRoom = true
  await look(1)
  assert.deepEqual(
    told.map(({ result }) => result),
    ['failure', 'success'],
  )
})

test('a parse that throws is a failure, and the next text is read', async (t) => {
  const { file, told, look } = reloaderOf(t, 5, undefined, {
    parse: (name, text) => {
      if (text === '{') throw new Error('no thread')
      return parseLimits(name, text)
    },
  })
  writeFileSync(file, '{')
  await look(2)
  assert.match(JSON.stringify(told), /no thread/)
  writeFileSync(file, table(6))
  await look(1)
  assert.equal(told[1]?.result, 'success')
})

test('after stop nothing is put in force', async (t) => {
  const { file, told, inForce, look, reloader } = reloaderOf(t, 5)
  reloader.stop()
  writeFileSync(file, table(6))
  await look(2)
  assert.deepEqual([told, inForce], [[], []])
})
