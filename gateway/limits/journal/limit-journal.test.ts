import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import type { Write } from '../../storage/append-log.ts'
import type { RowRecord } from '../table/row-matching.ts'
import type { Hit, Ignored } from './journal-records.ts'
import { Journal } from './limit-journal.ts'

const START = 1_763_692_800_000
const HOUR = 3_600_000

const home = mkdtempSync(join(tmpdir(), 'journal-'))
process.on('exit', () => rmSync(home, { recursive: true }))
let directories = 0

function directory(): string {
  return join(home, `${++directories}`, 'limits')
}

const transfer: RowRecord = {
  id: 1,
  name: 'transfer',
  path: '/api/transfer',
  methods: null,
  limit: 10,
  windowMs: HOUR,
  horizonMs: null,
}

interface Opened {
  journal: Journal
  rows: readonly RowRecord[]
  hits: Hit[]
  ignored: Ignored[]
  failed: Error[]
}

function open(at: string, now: number, write?: Write): Opened {
  const [hits, ignored, failed]: [Hit[], Ignored[], Error[]] = [[], [], []]
  const reports = {
    ignored: (what: Ignored) => ignored.push(what),
    failed: (error: Error) => failed.push(error),
  }
  const journal = new Journal({ directory: at, reports, ...(write === undefined ? {} : { write }) })
  const opened: Opened = { journal, rows: [], hits, ignored, failed }
  journal.load(now, {
    rows: (rows) => {
      opened.rows = rows
    },
    hit: (hit) => hits.push(hit),
  })
  return opened
}

function hit(atMs: number, key = 'p:alice', id = 1): Hit {
  return { id, atMs, key, count: 1 }
}

function segments(at: string): string[] {
  return readdirSync(at).filter((name) => name.startsWith('hits-'))
}

describe('the journal', () => {
  test('gives back the rows and the hits of an earlier run, oldest first', () => {
    const at = directory()
    const first = open(at, START)
    assert.deepEqual([first.rows, first.hits], [[], []])
    const id = first.journal.newId()
    first.journal.putTable([{ ...transfer, id }], START)
    first.journal.append(hit(START + 0.25, 'a:"\n', id))
    first.journal.append(hit(START + 1, 'b', id))
    first.journal.close([], START + 2)
    const second = open(at, START + 3)
    assert.deepEqual(second.rows, [{ ...transfer, id }])
    assert.deepEqual(second.hits, [hit(START + 0.25, 'a:"\n', id), hit(START + 1, 'b', id)])
    assert.deepEqual(second.ignored, [])
    assert.ok(second.journal.newId() > id)
    second.journal.close([], START + 3)
  })

  test('begins a segment each hour, and removes the ones that no window needs', () => {
    const at = directory()
    const { journal } = open(at, START)
    const daily = { ...transfer, id: 2, name: 'verify', path: '/v', windowMs: 24 * HOUR }
    journal.putTable([transfer, daily], START)
    journal.append(hit(START))
    journal.append(hit(START + HOUR - 1, 'b', 2))
    assert.equal(segments(at).length, 1)
    journal.append(hit(START + HOUR))
    assert.equal(segments(at).length, 2)
    for (let hours = 2; hours < 24; hours++) journal.append(hit(START + hours * HOUR))
    // The first stays for its daily hit; of the others only the last has hits that are not an hour old.
    assert.deepEqual(segments(at), [`hits-${START}.ndjson`, `hits-${START + 23 * HOUR}.ndjson`])
    journal.append(hit(START + 25 * HOUR))
    assert.deepEqual(segments(at), [`hits-${START + 25 * HOUR}.ndjson`])
    journal.close([], START + 25 * HOUR)
  })

  test('keeps a segment until its newest hit has left the window, to the millisecond', () => {
    const at = directory()
    const { journal } = open(at, START)
    journal.putTable([transfer], START)
    for (const ms of [5, 10, 7]) journal.append(hit(START + ms))
    journal.append(hit(START + HOUR))
    journal.putTable([transfer], START + HOUR + 9.75)
    assert.equal(segments(at).length, 2)
    journal.putTable([transfer], START + HOUR + 10)
    assert.equal(segments(at).length, 1)
    journal.close([], START + HOUR + 10)
  })

  test('begins a segment after 16 MiB', () => {
    const at = directory()
    const { journal } = open(at, START)
    journal.putTable([transfer], START)
    const key = 'k'.repeat(1024 * 1024)
    for (let i = 0; i < 20; i++) journal.append(hit(START, key))
    assert.equal(segments(at).length, 2)
    journal.close([], START)
    assert.equal(open(at, START).hits.length, 20)
  })

  test('begins every segment with the table, so that it is read without the others', () => {
    const at = directory()
    const { journal } = open(at, START)
    journal.putTable([transfer], START)
    journal.putTable([{ ...transfer, name: 'renamed' }], START + 1)
    journal.append(hit(START + HOUR))
    journal.close([], START + HOUR)
    const [first] = segments(at)
    const [header, table, ...hits] = readFileSync(join(at, first ?? ''), 'utf8').split('\n')
    assert.equal(segments(at).length, 1)
    assert.equal(header, '{"format":"limits","version":1}')
    assert.deepEqual(JSON.parse(table ?? ''), { rows: [{ ...transfer, name: 'renamed' }] })
    assert.deepEqual(hits, [`[1,${START + HOUR},"p:alice"]`, ''])
  })

  test('moves a hit to the present when it is in the future because the clock was set back', () => {
    const at = directory()
    const before = open(at, START + HOUR)
    before.journal.putTable([transfer], START + HOUR)
    before.journal.append(hit(START + HOUR))
    before.journal.close([], START + HOUR)
    const later = open(at, START)
    assert.deepEqual(later.hits, [hit(START)])
    later.journal.putTable([{ ...transfer, name: 'after' }], START)
    later.journal.append(hit(START + 1))
    later.journal.close([], START + 1)
    const last = open(at, START + 2)
    // The table of the run that came last counts, though its clock was behind.
    assert.deepEqual(last.rows, [{ ...transfer, name: 'after' }])
    assert.deepEqual(last.hits, [hit(START + 2), hit(START + 1)])
    last.journal.putTable([transfer], START + 2 + HOUR)
    assert.equal(segments(at).length, 1)
    last.journal.close([], START + 2 + HOUR)
  })

  test('reports damage with file and line, starts anyway, and gives everything else', () => {
    const at = directory()
    const first = open(at, START)
    first.journal.putTable([transfer], START)
    first.journal.append(hit(START))
    first.journal.close([{ ...hit(START, 's'), count: 3 }], START)
    const file = join(at, segments(at)[0]!)
    appendFileSync(file, 'garbage\n[1,17,"b"]\n[9,17,"stray"]\n[1,18,"to')
    mkdirSync(join(at, `hits-${START + 5}.ndjson`))
    appendFileSync(join(at, 'snapshot.ndjson'), '[1,')
    writeFileSync(join(at, 'hits-x.ndjson'), 'not ours')
    const second = open(at, START + 6)
    assert.deepEqual(
      second.hits.map(({ key, count }) => [key, count]),
      [
        ['p:alice', 1],
        ['b', 1],
        ['s', 3],
      ],
    )
    assert.deepEqual(
      second.ignored.map(({ file: name, damagedLines, firstDamagedLine, strayLines }) => [
        name.slice(at.length + 1),
        damagedLines,
        firstDamagedLine,
        strayLines,
      ]),
      [
        [`hits-${START}.ndjson`, 2, 4, 1],
        [`hits-${START + 5}.ndjson`, 0, 0, 0],
        ['snapshot.ndjson', 1, 3, 0],
      ],
    )
    assert.match(second.ignored[1]?.reason ?? '', /EISDIR/)
    assert.ok(second.journal.newId() > 9)
    second.journal.putTable([], START + 2 * HOUR)
    // What could not be read, or is not ours, stays.
    assert.deepEqual(
      segments(at),
      [`hits-${START + 2 * HOUR}.ndjson`, `hits-${START + 5}.ndjson`, 'hits-x.ndjson'].sort(),
    )
    assert.deepEqual(second.failed, [])
    second.journal.close([], START + 2 * HOUR)
  })

  test('keeps what it writes from other users', () => {
    const at = directory()
    const { journal } = open(at, START)
    journal.putTable([transfer], START)
    journal.append(hit(START))
    journal.close([hit(START)], START)
    assert.equal(statSync(at).mode & 0o777, 0o700)
    for (const name of readdirSync(at)) assert.equal(statSync(join(at, name)).mode & 0o777, 0o600, name)
    assert.deepEqual(readdirSync(at).sort(), [`hits-${START}.ndjson`, 'lock', 'snapshot.ndjson'])
  })

  test('counts in memory while the disk is full, says so, and catches up with the first hit after', () => {
    const at = directory()
    const full = openSync('/dev/full', 'w')
    after(() => closeSync(full))
    let failing = false
    const { journal, failed } = open(at, START, (fd, bytes) =>
      writeSync(failing ? full : fd, bytes as string),
    )
    journal.putTable([transfer], START)
    journal.append(hit(START))
    failing = true
    for (let i = 1; i <= 5; i++) journal.append(hit(START + i * 100))
    assert.deepEqual(
      failed.map((error) => (error as NodeJS.ErrnoException).code),
      ['ENOSPC', 'ENOSPC'],
    )
    assert.deepEqual([failed.length, journal.isWritable], [2, false])
    failing = false
    journal.append(hit(START + 1000))
    assert.equal(journal.isWritable, true)
    journal.close([], START + 1000)
    const after2 = open(at, START + 1001)
    assert.deepEqual(
      after2.hits.map(({ atMs }) => atMs - START),
      [0, 100, 200, 300, 400, 500, 1000],
    )
    assert.deepEqual(after2.ignored, [])
    after2.journal.close([], START + 1001)
  })

  test('writes every count anew when too many were waiting, once the disk takes them', () => {
    const at = directory()
    let isFull = false
    const { journal } = open(at, START, (fd, bytes) =>
      isFull ? assert.fail('full') : writeSync(fd, bytes as string),
    )
    journal.putTable([transfer], START)
    isFull = true
    const hits = Array.from({ length: 10 }, (_, i) => hit(START + i, `${i}`.repeat(1024 * 1024)))
    for (const each of hits) journal.append(each)
    isFull = false
    for (const atMs of [START + 1000, START + 2000]) journal.maintain(atMs, () => hits)
    assert.equal(journal.isWritable, true)
    journal.close([], START + 2000)
    const next = open(at, START + 2000)
    assert.deepEqual(
      next.hits.map(({ atMs }) => atMs),
      hits.map(({ atMs }) => atMs),
    )
    next.journal.close([], START + 2000)
  })

  test('keeps a segment that takes over hits which could not be written before it was begun', () => {
    const at = directory()
    let failing = false
    const { journal } = open(at, START, (fd, bytes) =>
      failing ? assert.fail('full') : writeSync(fd, bytes as string),
    )
    const daily = { ...transfer, windowMs: 24 * HOUR }
    journal.putTable([daily], START)
    failing = true
    journal.append(hit(START + 1))
    failing = false
    // The rotation carries the waiting hit over; no other hit of the row comes.
    journal.append(hit(START + HOUR, 'x', 99))
    journal.append(hit(START + 2 * HOUR, 'x', 99))
    journal.close([], START + 2 * HOUR)
    const next = open(at, START + 2 * HOUR)
    assert.deepEqual(next.hits, [hit(START + 1)])
    next.journal.close([], START + 2 * HOUR)
  })

  test('goes on in the old segment when no new one can be opened, and tries again later', () => {
    const at = directory()
    const { journal, failed } = open(at, START)
    journal.putTable([transfer], START)
    const obstacle = join(at, `hits-${START + HOUR}.ndjson`)
    writeFileSync(obstacle, 'of another')
    journal.append(hit(START + HOUR))
    journal.append(hit(START + HOUR + 1))
    assert.deepEqual([failed.length, journal.isWritable, segments(at).length], [1, true, 2])
    journal.append(hit(START + HOUR + 10_000))
    assert.deepEqual([failed.length, segments(at).length], [1, 3])
    journal.close([], START + HOUR + 10_000)
    assert.equal(readFileSync(obstacle, 'utf8'), 'of another')
    rmSync(obstacle)
    const next = open(at, START + HOUR + 10_000)
    assert.equal(next.hits.length, 3)
    next.journal.close([], START + HOUR + 10_000)
  })

  test('makes its directory again when somebody removed it', () => {
    const at = directory()
    const { journal } = open(at, START)
    journal.putTable([transfer], START)
    rmSync(at, { recursive: true })
    journal.append(hit(START + HOUR))
    assert.equal(segments(at).length, 1)
    journal.close([], START + HOUR)
  })

  test('gives no id twice, also when its row has no hits', () => {
    const at = directory()
    const first = open(at, START)
    first.journal.putTable([{ ...transfer, id: 5 }], START)
    first.journal.close([], START)
    const second = open(at, START)
    assert.equal(second.journal.newId(), 6)
    second.journal.close([], START)
  })

  test('appends the hits that a row brings along in segments of 16 MiB, and keeps all of them', () => {
    const at = directory()
    const { journal } = open(at, START)
    journal.putTable([transfer], START)
    const key = 'k'.repeat(1024 * 1024)
    journal.appendAll(2, new Array(20).fill(hit(START, key, 2)), START)
    assert.equal(segments(at).length, 2)
    journal.putTable([{ ...transfer, id: 2 }], START)
    assert.equal(segments(at).length, 2)
    journal.close([], START)
    const next = open(at, START)
    assert.equal(next.hits.length, 20)
    next.journal.close([], START)
  })

  test('writes what is waiting when it is closed, and nothing afterwards', () => {
    const at = directory()
    let failing = false
    const { journal } = open(at, START, (fd, bytes) =>
      failing ? assert.fail('full') : writeSync(fd, bytes as string),
    )
    journal.putTable([transfer], START)
    failing = true
    journal.append(hit(START + 1))
    failing = false
    journal.close([], START + 1)
    journal.append(hit(START + HOUR))
    const next = open(at, START + HOUR)
    assert.deepEqual([next.hits, segments(at).length], [[hit(START + 1)], 1])
    next.journal.close([], START + HOUR)
  })

  test('writes its snapshot over one that was never finished', () => {
    const at = directory()
    const { journal, failed } = open(at, START)
    journal.putTable([transfer], START)
    writeFileSync(join(at, 'snapshot.ndjson.tmp'), 'half a sna')
    journal.close([hit(START)], START)
    const next = open(at, START)
    assert.deepEqual([next.hits, failed], [[hit(START)], []])
    next.journal.close([], START)
  })

  test('keeps the old snapshot when a new one cannot be written, and says so', () => {
    const at = directory()
    const first = open(at, START)
    first.journal.putTable([transfer], START)
    first.journal.close([hit(START)], START)
    const draft = join(at, 'snapshot.ndjson.tmp')
    const second = open(at, START + 1)
    mkdirSync(draft)
    second.journal.close([hit(START + 1)], START + 1)
    assert.equal(second.failed.length, 1)
    rmdirSync(draft)
    const third = open(at, START + 2)
    assert.deepEqual([third.hits, third.failed], [[hit(START)], []])
    third.journal.close([], START + 2)
  })

  test('gives no id twice when only the hits of a table are left', () => {
    const at = directory()
    mkdirSync(at, { recursive: true })
    writeFileSync(join(at, `hits-${START}.ndjson`), '{"rows":[{broken\n[41,5,"a"]\n')
    const { journal, rows, hits } = open(at, START)
    assert.deepEqual([rows, hits], [[], []])
    assert.equal(journal.newId(), 42)
    journal.close([], START)
  })

  test('belongs to one gateway at a time, and to nobody after a crash', async (context) => {
    const at = directory()
    const { journal } = open(at, START)
    assert.throws(() => open(at, START), /in use by another gateway/)
    journal.close([], START)
    const script = `
      const { Journal } = await import(${JSON.stringify(new URL('./limit-journal.ts', import.meta.url).href)})
      globalThis.journal = new Journal({ directory: ${JSON.stringify(at)}, reports: {} })
      console.log('open')
      process.stdin.resume()
    `
    const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    context.after(() => child.kill('SIGKILL'))
    await once(child.stdout, 'data')
    assert.throws(() => open(at, START), /in use by another gateway/)
    child.kill('SIGKILL')
    await once(child, 'close')
    open(at, START).journal.close([], START)
  })

  test('says at once when its directory cannot be locked', () => {
    const at = directory()
    mkdirSync(join(at, 'lock'), { recursive: true })
    assert.throws(() => open(at, START), /limits cannot be locked: /)
  })

  test('says at once when its directory cannot be made', () => {
    const file = join(home, 'file')
    writeFileSync(file, '')
    chmodSync(file, 0o600)
    assert.throws(() => open(join(file, 'limits'), START), /ENOTDIR/)
  })
})
