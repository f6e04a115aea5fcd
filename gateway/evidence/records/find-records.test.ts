import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { requestRecord, responseTo, startRecord, storeRecord } from '../../audit/audit-records.ts'
import { Rotation } from '../../audit/segments/rotation.ts'
import type { Segment } from '../../audit/segments/segment.ts'
import { requestLine } from '../../audit/trail.test-support.ts'
import { LONGER } from '../../e2e/long-runs.ts'
import { trailsOf } from '../trail-files.ts'
import { parseLine, timestampMs } from './audit-line.ts'
import { reportDay } from './day-report.ts'
import { concerns, findRecords, matches, type Search } from './find-records.ts'
import { segmentsSince } from './scan-trail.ts'

const dir = mkdtempSync(join(tmpdir(), 'find-records-'))
process.on('exit', () => rmSync(dir, { recursive: true }))
const BEGIN = Date.parse('2026-11-20T00:00:00Z')
const HOURS = 6
const EXCHANGES = 6000

/** Bytes that this process has read so far, from files and caches. */
const bytesRead = () => Number(/^rchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))?.[1])

const iso = (ms: number) => new Date(ms).toISOString()

function idOf(ms: number, n: number): string {
  const hex = ms.toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-${String(n).padStart(12, '0')}`
}

/** Six hours, four segments of three kinds. Some responses come hours late, some requests are recorded minutes late. */
function writeTrail(): { file: string; lines: string[] } {
  const written: { atMs: number; line: string }[] = []
  for (let n = 0; n < EXCHANGES; n++) {
    const startMs = BEGIN + Math.floor((n / EXCHANGES) * HOURS * 3_600_000)
    const recordedMs = startMs + (n % 500 === 7 ? 9 * 60_000 : 2)
    const endMs = recordedMs + (n % 300 === 5 ? 2 * 3_600_000 : (n % 50) * 10)
    const request = requestRecord({
      requestId: n % 10 === 0 ? `client-${n % 40}` : idOf(startMs, n),
      timestamp: iso(startMs),
      method: 'GET',
      path: `/api/${n}`,
      userId: n % 3 === 0 ? undefined : `user-${n % 7}`,
      clientId: n % 3 === 1 ? undefined : 'partner',
      ip: '192.0.2.1',
      userAgent: 'a'.repeat(200),
      gatewayId: n % 10 === 0 ? idOf(startMs, n) : undefined,
      // Some requests are refused before their session is known.
      sessionId: n % 8 === 0 ? `session-${n % 5}` : undefined,
    })
    written.push({ atMs: recordedMs, line: request })
    const grpcStatus = n % 6 === 1 ? n % 17 : undefined
    const response = responseTo(request, n % 11 === 0 ? 429 : 200, endMs - startMs, grpcStatus)
    const session = n % 8 === 4 ? `,"sessionId":"session-${n % 5}"}\n` : '}\n'
    written.push({ atMs: endMs, line: response.replace(/\}\n$/, session) })
  }
  written.sort((a, b) => a.atMs - b.atMs)
  const file = join(dir, 'audit.ndjson')
  const lines: string[] = []
  const quarter = Math.ceil(written.length / 4)
  for (let i = 0; i < 4; i++) {
    const part = written.slice(i * quarter, (i + 1) * quarter)
    const first = startRecord({ timestamp: iso(part[0]!.atMs), pid: 1, open: 0 })
    const text = [first, ...part.map(({ line }) => line)]
    lines.push(...text)
    const bytes = Buffer.from(text.join(''))
    if (i === 0) writeFileSync(`${file}.20260101T000000000Z.zst`, zstdCompressSync(bytes))
    else if (i === 1) writeFileSync(`${file}-20261120.gz`, gzipSync(bytes))
    else writeFileSync(i === 2 ? `${file}.1` : file, bytes)
  }
  return { file, lines }
}

describe('finding records', () => {
  const { file, lines } = writeTrail()

  async function find(search: Search) {
    const found: string[] = []
    const [trail] = await trailsOf([file])
    await findRecords(trail!.segments, search, {
      onRecord: (line) => found.push(line.toString()),
    })
    return found
  }

  const expected = ({ filter, period }: Search) =>
    lines.filter((line) => {
      const record = parseLine(Buffer.from(line))!
      const ms = timestampMs(record)
      return matches(filter, record) && (period === undefined || (ms >= period.fromMs && ms < period.toMs))
    })

  it('finds what a look at every line finds, with any filter and period', async () => {
    const time = fc.integer({ min: -60, max: HOURS * 60 + 60 }).map((minutes) => BEGIN + minutes * 60_000)
    const search: fc.Arbitrary<Search> = fc.record({
      filter: fc.record(
        {
          request: fc.oneof(
            fc.constant('client-20'),
            fc.constant('client-999'),
            fc
              .nat(EXCHANGES - 1)
              .map((n) => idOf(BEGIN + Math.floor((n / EXCHANGES) * HOURS * 3_600_000), n)),
          ),
          user: fc.constantFrom('user-1', 'user-5', 'nobody'),
          client: fc.constant('partner'),
          session: fc.constantFrom('session-1', 'nobody'),
          status: fc.constantFrom(200, 429),
          grpcStatus: fc.constantFrom(1, 14),
        },
        { requiredKeys: [] },
      ),
      period: fc.option(
        fc.tuple(time, time).map(([a, b]) => ({ fromMs: Math.min(a, b), toMs: Math.max(a, b) })),
        { nil: undefined },
      ),
    })
    await fc.assert(
      fc.asyncProperty(search, async (one) => assert.deepEqual(await find(one), expected(one))),
      { numRuns: 12 * LONGER },
    )
  })

  it('finds the responses of a session, whatever the period', async () => {
    const hour = { fromMs: BEGIN + 3_600_000, toMs: BEGIN + 7_200_000 }
    for (const search of [
      { filter: { session: 'session-1' } },
      { filter: { session: 'session-1', status: 429 } },
      { filter: { session: 'session-1' }, period: hour },
    ]) {
      const found = await find(search)
      assert.ok(found.length > 10)
      assert.deepEqual(found, expected(search))
    }
  })

  it('reads only lines near the time of an id, and all lines when none of these has the id', async () => {
    const late = lines.findLast((line) => line.includes('"API_REQUEST"') && !line.includes('client-'))!
    const { requestId } = JSON.parse(late)
    assert.equal((await find({ filter: { request: requestId } })).length, 2)
    const reused = idOf(BEGIN + 1000, 999_999)
    writeFileSync(file, late.replace(requestId, reused), { flag: 'a' })
    lines.push(late.replace(requestId, reused))
    assert.equal((await find({ filter: { request: reused } })).length, 1)
  })

  it('reads less than 20 MB of a file of more than 50 MB for a period of one minute', {
    skip: !existsSync('/proc/self/io') && 'needs Linux',
  }, async () => {
    const large = join(dir, 'large', 'audit.ndjson')
    mkdirSync(dirname(large))
    const text = lines.join('')
    const years = 12
    for (let n = 0; n < years; n++) {
      const later = text.replaceAll('"timestamp":"2026', `"timestamp":"${2026 + n}`)
      writeFileSync(large, later, { flag: 'a' })
    }
    assert.ok(statSync(large).size > 50e6)
    const [trail] = await trailsOf([large])
    const fromMs = Date.parse('2033-11-20T03:00:00Z')
    const before = bytesRead()
    let count = 0
    const onRecord = () => count++
    const period = { fromMs, toMs: fromMs + 60_000 }
    await findRecords(trail!.segments, { filter: { user: 'user-1' }, period }, { onRecord })
    assert.ok(count > 0)
    assert.ok(bytesRead() - before < 20e6)
  })

  it('takes quotes in a filter literally, and ignores the values of other members', async () => {
    assert.equal((await find({ filter: { user: 'user-1","ip":"192.0.2.1' } })).length, 0)
    assert.equal(concerns({ user: 'x' }, { requestId: 'x', clientId: 'x' }), false)
  })
})

describe('a trail whose clock was a year ahead for a while', () => {
  it('is read whole, so that a period has all that began in it', async () => {
    const file = join(dir, 'jumped', 'audit.ndjson')
    mkdirSync(dirname(file))
    const write = (path: string, id: string, timestamp: string) => {
      const request = requestLine(id, timestamp)
      writeFileSync(path, startRecord({ timestamp, pid: 1, open: 0 }) + request + responseTo(request, 200, 1))
    }
    write(`${file}.20261120T000000000Z`, 'before', '2026-11-19T12:00:00.000Z')
    write(`${file}.20271120T000000000Z`, 'ahead', '2027-11-20T12:00:00.000Z')
    write(file, 'after', '2026-11-20T12:00:00.000Z')
    const [trail] = await trailsOf([file])
    const found = async (day: string) => {
      const ids: unknown[] = []
      const period = { fromMs: Date.parse(day), toMs: Date.parse(day) + 86_400_000 }
      const onRecord = (_: Buffer, { requestId }: { requestId?: unknown }) => ids.push(requestId)
      await findRecords(trail!.segments, { filter: { status: 200 }, period }, { onRecord })
      return ids
    }
    assert.deepEqual(await found('2026-11-19'), ['before'])
    assert.deepEqual(await found('2026-11-20'), ['after'])
    assert.deepEqual(await found('2027-11-20'), ['ahead'])
    assert.equal((await reportDay(trail!.segments, Date.parse('2026-11-20'))).responses, 1)
    const since = async (day: string) =>
      (await segmentsSince(trail!.segments, Date.parse(day))).map(({ path }) => path.slice(file.length))
    assert.deepEqual(await since('2026-11-20T13:00:00Z'), [
      '.20261120T000000000Z',
      '.20271120T000000000Z',
      '',
    ])
    assert.deepEqual(await since('2027-11-21'), [''])
  })
})

describe('a clock that is set back and forward while files are written', () => {
  interface Written {
    /** The true time, which does not jump as the clock does. */
    readonly ms: number
    readonly line: string
  }
  const MINUTES = 240
  const LINES = 6000

  /** Lines of a gateway whose clock is `aheadMs` ahead of the true time. */
  function writtenWith(aheadMs: (ms: number) => number): Written[] {
    const stepMs = (MINUTES * 60_000) / LINES
    return Array.from({ length: LINES }, (_, n): Written[] => {
      const ms = BEGIN + n * stepMs
      const startMs = ms + aheadMs(ms)
      const request = requestRecord({
        requestId: `request-${n}`,
        timestamp: iso(startMs),
        method: 'GET',
        path: `/${n}`,
        userId: 'user',
        clientId: undefined,
        ip: '192.0.2.1',
        userAgent: 'a'.repeat(450),
        gatewayId: undefined,
      })
      const durationMs = n % 100 === 1 ? 30 * 60_000 : n % 10 === 3 ? 20_000 : 5
      return [
        { ms: ms + 2, line: request },
        { ms: ms + 2 + durationMs, line: responseTo(request, 200, 2 + durationMs) },
      ]
    })
      .flat()
      .sort((a, b) => a.ms - b.ms)
  }

  /** Writes these lines to files. The rotation looks at the clock each second. */
  function writeWith(directory: string, aheadMs: (ms: number) => number, seals: boolean): string[] {
    mkdirSync(directory)
    const file = join(directory, 'audit.ndjson')
    let ms = BEGIN
    const now = () => Math.round(ms + aheadMs(ms))
    const begin = (clockSetBackMs?: number) =>
      writeFileSync(file, startRecord({ timestamp: iso(now()), pid: 1, open: 0, clockSetBackMs }))
    const trail = {
      get inode() {
        return statSync(file, { throwIfNoEntry: false })?.ino.toString() ?? 'none'
      },
      reopen: begin,
    }
    begin()
    const rotation = new Rotation({ file, trail, now, onFault: assert.fail })
    let pieces: string[] = []
    for (const { ms: atMs, line } of writtenWith(aheadMs)) {
      for (; ms + 1000 < atMs; ms += 1000) {
        if (seals) pieces.push(storeRecord({ type: 'STORE_RESTORED', timestamp: iso(now()), store: 'x' }))
        writeFileSync(file, pieces.join(''), { flag: 'a' })
        pieces = []
        rotation.maintain(undefined)
      }
      pieces.push(line)
    }
    writeFileSync(file, pieces.join(''), { flag: 'a' })
    return [file]
  }

  /** Requests that began before the first set-back end after the second, so their responses are ahead by both. */
  const SET_BACK_TWICE: [{ minute: number; hours: number }[], [number, number][], boolean] = [
    [
      { minute: 16, hours: -5 },
      { minute: 5, hours: -1 },
      { minute: 237, hours: 2 },
    ],
    [
      [-8, 55],
      [-62, 74],
    ],
    false,
  ]

  it('hides no record from a period, because the rotation begins a new file when the clock is set back', async () => {
    let runs = 0
    const jump = fc.record({ minute: fc.nat(MINUTES), hours: fc.integer({ min: -5, max: 5 }) })
    const jumps = fc.array(jump, { minLength: 1, maxLength: 3 })
    const minute = fc.integer({ min: -400, max: MINUTES + 400 })
    const periods = fc.array(fc.tuple(minute, fc.integer({ min: 1, max: 90 })), {
      minLength: 6,
      maxLength: 6,
    })
    await fc.assert(
      fc.asyncProperty(jumps, periods, fc.boolean(), async (all, some, seals) => {
        const aheadMs = (ms: number) =>
          all
            .filter(({ minute }) => ms >= BEGIN + minute * 60_000)
            .reduce((sum, { hours }) => sum + hours * 3_600_000, 0)
        const paths = writeWith(join(dir, `clock-${runs++}`), aheadMs, seals)
        const [trail] = await trailsOf(paths)
        const whole = await idsIn(trail!.segments, undefined)
        assert.equal(whole.length, 2 * LINES)
        for (const [from, length] of some) {
          const period = { fromMs: BEGIN + from * 60_000, toMs: BEGIN + (from + length) * 60_000 }
          const expected = whole.filter(({ ms }) => ms >= period.fromMs && ms < period.toMs)
          assert.deepEqual(await idsIn(trail!.segments, period), expected)
        }
      }),
      { numRuns: 5 * LONGER, endOnFailure: true, examples: [SET_BACK_TWICE] },
    )
  })

  async function idsIn(segments: readonly Segment[], period: Search['period']) {
    const ids: { readonly id: string; readonly ms: number }[] = []
    const filter = { user: 'user' }
    await findRecords(
      segments,
      { filter, period },
      {
        onRecord: (_, record) =>
          ids.push({ id: `${record.type} ${record.requestId}`, ms: timestampMs(record) }),
      },
    )
    return ids
  }
})

describe('the files of a trail', () => {
  it('are recognised by names of many digits too', async () => {
    const path = join(dir, `other.ndjson-${'0'.repeat(200)}x.gz`)
    writeFileSync(path, gzipSync('{}\n'))
    assert.deepEqual(
      (await trailsOf([path])).map(({ auditFile }) => auditFile),
      [path.slice(0, -3)],
    )
    rmSync(path)
  })

  it('are found from its name, from its directory and from a glob, with what lies beside left out', async () => {
    const names = async (...paths: string[]) =>
      (await trailsOf(paths)).map(({ auditFile, segments }) => [auditFile, segments.length])
    const file = join(dir, 'audit.ndjson')
    const beside = ['lock', 'shipped', 'shipped.tmp', 'clock', 'segments.lock', '20261120T000000000Z.zst.tmp']
    for (const ending of beside) writeFileSync(`${file}.${ending}`, '')
    assert.deepEqual(await names(file), [[file, 4]])
    assert.deepEqual(await names(dir), [[file, 4]])
    assert.deepEqual(await names(file, `${file}.1`, ...beside.map((ending) => `${file}.${ending}`)), [
      [file, 4],
    ])
    assert.deepEqual(await names(`${file}.1`, `${file}-20261120.gz`), [[file, 2]])
    await assert.rejects(trailsOf([join(dir, 'none')]), /none cannot be read: ENOENT/)
  })
})
