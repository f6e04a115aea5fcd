import assert from 'node:assert/strict'
import {
  appendFileSync,
  chmodSync,
  closeSync,
  copyFileSync,
  linkSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as afterMs, setImmediate as turn } from 'node:timers/promises'
import { openTrail } from '../open-trail.ts'
import type { ForeignWrite } from '../seal-records.ts'
import { afterTimeOf, endOf, linesOf, requestLine, temporaryDirectory } from '../trail.test-support.ts'

function trailOf(t: TestContext, durability: 'written' | 'synced' = 'written') {
  const directory = temporaryDirectory(t)
  const file = join(directory, 'audit.ndjson')
  const foreign: ForeignWrite[] = []
  const records: string[] = []
  const open = () =>
    openTrail({
      file,
      durability,
      onFault: assert.fail,
      onRecord: (type, count) => records.push(...Array<string>(count).fill(type)),
      onForeign: (what) => foreign.push(what),
    })
  const asides = () => readdirSync(directory).filter((name) => /^audit.ndjson.\d{8}T/.test(name))
  return { directory, file, foreign, records, open, asides, trail: open() }
}

const typesIn = (file: string) => linesOf(file).map(({ type }) => type)

for (const durability of ['written', 'synced'] as const) {
  test(`a line that an operator appends stays alone at the end of a file that is closed (${durability})`, async (t) => {
    const { directory, file, foreign, asides, trail } = trailOf(t, durability)
    await endOf(trail.append(requestLine('a')))
    appendFileSync(file, 'note to self\n')
    assert.equal(await endOf(trail.append(requestLine('b'))), undefined)
    const [aside = ''] = asides()
    assert.match(readFileSync(join(directory, aside), 'utf8'), /"a".*\nnote to self\n$/)
    assert.deepEqual(typesIn(file), ['AUDIT_START', 'AUDIT_FOREIGN', 'API_REQUEST'])
    assert.ok(foreign[0])
    const { at, found, ...rest } = foreign[0]
    assert.deepEqual([found - at, rest.file, rest.reason, foreign.length], [13, aside, 'grown', 1])
    const [start, named] = linesOf(file)
    assert.deepEqual(
      [start?.open, start?.continues, named?.inode, named?.at],
      [1, rest.inode, rest.inode, at],
    )
    trail.close('end')
  })
}

test('the records with which the next file begins are counted', async (t) => {
  const { file, records, trail } = trailOf(t)
  const before = linesOf(file).length
  appendFileSync(file, 'x')
  trail.maintain()
  await endOf(trail.append(requestLine('a')))
  trail.close('end')
  assert.deepEqual(records.slice(before).sort(), typesIn(file).sort())
})

test('a file that others make longer, shorter, or replace is noticed within a second without a request', async (t) => {
  for (const [reason, change] of [
    ['grown', (file: string) => appendFileSync(file, 'x')],
    ['shortened', (file: string) => truncateSync(file, 10)],
    ['shortened', (file: string) => truncateSync(file, 0)],
    [
      'replaced',
      (file: string) => {
        renameSync(file, `${file}.old`)
        copyFileSync(`${file}.old`, file)
      },
    ],
    [
      'replaced',
      (file: string) => {
        copyFileSync(file, `${file}.tmp`)
        renameSync(`${file}.tmp`, file)
      },
    ],
  ] as const) {
    const { file, foreign, trail } = trailOf(t)
    await endOf(trail.append(requestLine('a')))
    trail.maintain()
    assert.equal(foreign.length, 0)
    change(file)
    trail.maintain()
    trail.maintain()
    assert.deepEqual(
      foreign.map((one) => one.reason),
      [reason],
    )
    assert.deepEqual(typesIn(file), ['AUDIT_START', 'AUDIT_FOREIGN'])
    trail.close('end')
  }
})

function overwrite(file: string): void {
  afterTimeOf(file)
  const fd = openSync(file, 'r+')
  writeSync(fd, 'X', 40)
  closeSync(fd)
}

for (const durability of ['written', 'synced'] as const) {
  test(`a byte that is overwritten in its place is noticed at once, and by the next record (${durability})`, async (t) => {
    for (const notices of ['maintain', 'append'] as const) {
      const { file, foreign, asides, trail } = trailOf(t, durability)
      await endOf(trail.append(requestLine('a')))
      trail.maintain()
      overwrite(file)
      if (notices === 'maintain') trail.maintain()
      else await endOf(trail.append(requestLine('b')))
      trail.maintain()
      assert.deepEqual(
        foreign.map(({ file: name, reason, at, found }: ForeignWrite) => [name, reason, found - at]),
        [[asides()[0], 'changed', 0]],
      )
      const types = ['AUDIT_START', 'AUDIT_FOREIGN', ...(notices === 'append' ? ['API_REQUEST'] : [])]
      assert.deepEqual(typesIn(file), types)
      trail.close('end')
    }
  })
}

test('what is overwritten after a short pause is noticed by the next record', async (t) => {
  const { file, foreign, trail } = trailOf(t)
  await endOf(trail.append(requestLine('a')))
  // Timers of one length end in the order in which they began, so the gateway's timer ends before this one.
  await afterMs(20)
  overwrite(file)
  await endOf(trail.append(requestLine('b')))
  assert.deepEqual(
    foreign.map(({ reason }) => reason),
    ['changed'],
  )
  trail.close('end')
})

test('a backup, new rights, another name and times that are set back are no foreign writes', async (t) => {
  const { file, foreign, trail } = trailOf(t)
  await endOf(trail.append(requestLine('a')))
  trail.maintain()
  const { atime, mtimeMs } = statSync(file)
  const deeds = [
    () => utimesSync(file, atime, mtimeMs / 1000),
    () => chmodSync(file, 0o640),
    () => linkSync(file, `${file}.link`),
    () => readFileSync(file),
    () => utimesSync(file, atime, mtimeMs / 1000 - 60),
  ]
  for (const deed of deeds) {
    deed()
    trail.maintain()
    await endOf(trail.append(requestLine('b')))
    trail.maintain()
  }
  assert.deepEqual(foreign, [])
  trail.close('end')
})

test('a renamed trail counts as rotated for a minute, and then as taken away by others', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() })
  for (const puts of ['an empty file', 'nothing'] as const) {
    const { file, foreign, trail } = trailOf(t)
    await endOf(trail.append(requestLine('a')))
    renameSync(file, `${file}.away`)
    if (puts === 'an empty file') writeFileSync(file, '')
    trail.maintain()
    t.mock.timers.tick(59_000)
    trail.maintain()
    await endOf(trail.append(requestLine('b')))
    assert.equal(foreign.length, 0)
    t.mock.timers.tick(1000)
    trail.maintain()
    trail.maintain()
    assert.deepEqual(
      foreign.map((one) => [one.file, one.reason]),
      [['audit.ndjson.away', 'renamed']],
      puts,
    )
    assert.deepEqual(typesIn(`${file}.away`), ['AUDIT_START', 'API_REQUEST', 'API_REQUEST'])
    assert.deepEqual(typesIn(file), ['AUDIT_START', 'AUDIT_FOREIGN'])
    trail.close('end')
  }
})

test('a renamed trail that others took away is noticed, although the clock was set back meanwhile', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() })
  const { file, foreign, trail } = trailOf(t)
  renameSync(file, `${file}.away`)
  trail.maintain()
  t.mock.timers.setTime(Date.now() - 3_600_000)
  trail.maintain()
  t.mock.timers.setTime(Date.now() + 60_000)
  trail.maintain()
  assert.equal(foreign[0]?.reason, 'renamed')
  trail.close('end')
})

test('a link that others put in the place of the trail makes the gateway rename nothing but that link', async (t) => {
  const { directory, file, foreign, trail } = trailOf(t)
  const other = join(temporaryDirectory(t), 'clients.json')
  writeFileSync(other, '{}\n')
  renameSync(file, `${file}.old`)
  symlinkSync(other, file)
  trail.maintain()
  assert.equal(await endOf(trail.append(requestLine('a'))), undefined)
  assert.equal(readFileSync(other, 'utf8'), '{}\n')
  assert.deepEqual(typesIn(file), ['AUDIT_START', 'AUDIT_FOREIGN', 'API_REQUEST'])
  assert.ok(foreign[0]?.reason === 'replaced' && readdirSync(directory).includes(foreign[0].file))
  trail.close('end')
})

test('a stranger who writes again and again causes one new file a minute, and joins nothing to a record', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() })
  const { file, foreign, asides, trail } = trailOf(t)
  for (let i = 0; i < 20; i++) {
    appendFileSync(file, i % 2 === 0 ? 'note\n' : 'no end of line')
    assert.equal(await endOf(trail.append(requestLine(`r${i}`))), undefined)
  }
  trail.maintain()
  trail.maintain()
  assert.deepEqual([asides().length, foreign.length], [1, 2])
  const bytes = foreign.reduce((sum, { at, found }) => sum + found - at, 0)
  assert.equal(bytes, 10 * ('note\n'.length + 'no end of line'.length))
  const lines = readFileSync(file, 'utf8').split('\n')
  for (let i = 0; i < 20; i++) assert.ok(lines.includes(requestLine(`r${i}`).trimEnd()), `r${i}`)
  t.mock.timers.tick(60_000)
  appendFileSync(file, 'x')
  trail.maintain()
  assert.deepEqual([asides().length, foreign.length], [2, 3])
  assert.deepEqual(typesIn(file), ['AUDIT_START', 'AUDIT_FOREIGN'])
  trail.close('end')
})

test('rotations by others are no foreign writes: a rename and SIGHUP, with a new empty file or without', async (t) => {
  const { file, foreign, trail } = trailOf(t)
  for (const name of ['.1', '.2']) {
    await endOf(trail.append(requestLine(name)))
    renameSync(file, `${file}${name}`)
    if (name === '.2') appendFileSync(file, '')
    trail.maintain()
    await endOf(trail.append(requestLine('late')))
    trail.reopen()
    await endOf(trail.append(requestLine('new')))
  }
  trail.maintain()
  assert.deepEqual(foreign, [])
  trail.close('end')
})

test('a rotation by others is no foreign write, however long ago the last rotation was', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() })
  const { file, foreign, trail } = trailOf(t)
  for (const name of ['.1', '.2', '.3']) {
    renameSync(file, `${file}${name}`)
    trail.reopen()
    t.mock.timers.tick(86_400_000)
    await endOf(trail.append(requestLine(name)))
  }
  assert.deepEqual(foreign, [])
  trail.close('end')
})

test('a start sets aside what others appended behind an orderly end, and finds no open request in it', async (t) => {
  const { directory, file, foreign, asides, open, trail } = trailOf(t)
  const sealed = '{"type":"AUDIT_SEAL","size":2}\n'
  trail.close('end')
  appendFileSync(file, sealed)
  open().close('end')
  assert.deepEqual([foreign, asides()], [[], []])
  appendFileSync(file, `${sealed}${requestLine('forged')}no newline`)
  const next = open()
  await turn()
  const [aside = ''] = asides()
  assert.deepEqual(typesIn(file), ['AUDIT_START', 'AUDIT_FOREIGN'])
  assert.equal(foreign[0]?.reason, 'behind the end')
  assert.equal(
    (foreign[0]?.found ?? 0) - (foreign[0]?.at ?? 0),
    `${requestLine('forged')}no newline`.length + 1,
  )
  assert.match(readFileSync(join(directory, aside), 'utf8'), /no newline$/)
  next.close('end')
})

test('each start repeats the report of a foreign write, until the file that was begun because of it is rotated', async (t) => {
  const { file, foreign, open, trail } = trailOf(t)
  await endOf(trail.append(requestLine('a')))
  appendFileSync(file, 'note to self\n')
  await endOf(trail.append(requestLine('b')))
  trail.close('end')
  const next = open()
  const [first, again] = foreign
  assert.deepEqual({ ...again, ...first }, again)
  renameSync(file, `${file}.1`)
  next.reopen()
  next.close('end')
  open().close('end')
  assert.equal(foreign.length, 2)
})
