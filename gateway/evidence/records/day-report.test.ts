import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { zstdCompressSync } from 'node:zlib'
import { recoveredRecord, responseTo, startRecord } from '../../audit/audit-records.ts'
import { requestLine } from '../../audit/trail.test-support.ts'
import { SealedTrail } from '../sealed-trail.test-support.ts'
import { trailsOf } from '../trail-files.ts'
import { reportDay } from './day-report.ts'

const dir = mkdtempSync(join(tmpdir(), 'day-report-'))
process.on('exit', () => rmSync(dir, { recursive: true }))
const DAY = Date.parse('2026-11-20T00:00:00Z')
const at = (time: string) => new Date(`2026-11-20T${time}Z`).toISOString()
const event = (type: string, timestamp: string, more: object) =>
  `${JSON.stringify({ type, timestamp, ...more })}\n`

it('counts what a day holds, and names what a person must look at', async () => {
  const trail = new SealedTrail(dir)
  trail.start()
  for (const status of [200, 200, 401, 503]) trail.exchange(status)
  await trail.seal()
  await trail.rotate('zstd')
  trail.exchange(429)
  const request = requestLine('cut-off', at('08:00:00.000'))
  trail.write(request)
  trail.write(recoveredRecord(request))
  trail.write(startRecord({ timestamp: at('08:05:00.000'), pid: 8, open: 0, recovered: 1, cutBytes: 12 }))
  trail.write(event('STORE_DEGRADED', at('09:00:00.000'), { store: 'limits', cause: 'ENOSPC' }))
  trail.write(event('STORE_RESTORED', at('09:10:00.000'), { store: 'limits' }))
  trail.write(event('CONFIG_CHANGE', at('10:00:00.000'), { file: 'limits.json', before: [], after: [] }))
  trail.write(event('AUDIT_STOP', at('11:00:00.000'), { pid: 8, open: 0, reason: 'SIGTERM' }))
  trail.write(startRecord({ timestamp: at('11:01:00.000'), pid: 9, open: 0 }))
  trail.write(request.replace('cut-off', 'never-answered').replace('08:00', '12:00'))
  trail.write(request.replace('cut-off', 'tomorrow').replace('2026-11-20', '2026-11-21'))
  const [files] = await trailsOf([trail.file])
  const report = await reportDay(files!.segments, DAY)
  const { requests, responses, unpaired, recovered, byStatus, gaps, degraded, configChanges, seals } = report
  assert.deepEqual(
    { requests, responses, unpaired, recovered },
    { requests: 7, responses: 6, unpaired: 1, recovered: 1 },
  )
  assert.deepEqual(byStatus, { 200: 2, 401: 1, 429: 1, 503: 1 })
  assert.deepEqual(gaps, [
    { from: gaps[0]?.from, until: at('08:05:00.000'), reason: 'a crash' },
    { from: at('11:00:00.000'), until: at('11:01:00.000'), reason: 'SIGTERM' },
  ])
  assert.deepEqual(degraded, [
    { from: at('09:00:00.000'), until: at('09:10:00.000'), reason: 'limits: ENOSPC' },
  ])
  assert.deepEqual(configChanges, [{ at: at('10:00:00.000'), file: 'limits.json' }])
  assert.equal(seals, 2)
  assert.deepEqual(report.attention, [
    `AUDIT_START at ${at('08:05:00.000')}: cutBytes 12`,
    `a start without a stop before it, at ${at('08:05:00.000')}: a crash`,
    '1 request without a response',
    '1 request was cut off by a crash',
    `degraded from ${at('09:00:00.000')}: limits: ENOSPC`,
    'lines waited 115200 s for their seal',
  ])
  const next = await reportDay(files!.segments, DAY + 86_400_000)
  assert.deepEqual([next.requests, next.unpaired, next.gaps], [1, 1, []])
})

it('counts lines that are no records, however many there are', async () => {
  const trail = new SealedTrail(join(dir, 'damaged'))
  trail.start()
  trail.exchange()
  trail.write(...Array(1000).fill('x\n'))
  const [files] = await trailsOf([trail.file])
  assert.deepEqual((await reportDay(files!.segments, DAY)).attention, ['1,000 lines that are not records'])
})

const pair = (timestamp: string, durationMs: number) => {
  const request = requestLine(`at-${timestamp}`, timestamp)
  return [request, responseTo(request, 200, durationMs)]
}

async function reportOf(name: string, lines: readonly string[], dayMs = DAY) {
  const trail = new SealedTrail(join(dir, name))
  for (const line of lines) trail.write(line)
  const [files] = await trailsOf([trail.file])
  return reportDay(files!.segments, dayMs)
}

it('counts calls of gRPC by their status', async () => {
  const lines = [0, 14, 14, 2].flatMap((grpcStatus) => {
    const [request = ''] = pair(at('15:00:00.000'), 100)
    return [request, responseTo(request, 200, 100, grpcStatus)]
  })
  const { byStatus, byGrpcStatus } = await reportOf('calls', [...lines, ...pair(at('15:00:00.000'), 100)])
  assert.deepEqual([byStatus, byGrpcStatus], [{ 200: 5 }, { 0: 1, 2: 1, 14: 2 }])
})

it('counts no wait for a seal while nothing was written', async () => {
  const seal = (time: string) => event('AUDIT_SEAL', at(time), { size: 1 })
  const report = await reportOf('idle', [
    startRecord({ timestamp: at('10:00:00.000'), pid: 1, open: 0 }),
    seal('10:00:01.000'),
    ...pair(at('15:00:00.000'), 100),
    seal('15:00:01.000'),
    // This request was refused after a long wait for its body, at whose end both lines were written.
    ...pair(at('16:00:00.000'), 90_000),
    seal('16:01:31.000'),
    // The response to this request comes later.
    pair(at('17:00:00.000'), 0)[0] ?? '',
    seal('17:00:01.000'),
  ])
  assert.deepEqual([report.longestUnsealedMs, report.attention], [1000, ['1 request without a response']])
  const crash = await reportOf('crash', [
    startRecord({ timestamp: at('10:00:00.000'), pid: 1, open: 0 }),
    pair(at('15:00:00.000'), 0)[0] ?? '',
    startRecord({ timestamp: at('15:00:05.000'), pid: 2, open: 1, recovered: 0 }),
  ])
  assert.equal(crash.gaps[0]?.from, at('15:00:00.000'))
})

it('says that sealing has stopped, on the day and on later days', async () => {
  const seal = (timestamp: string) => event('AUDIT_SEAL', timestamp, { size: 1 })
  const lines = [
    startRecord({ timestamp: at('10:00:00.000'), pid: 1, open: 0 }),
    ...pair(at('10:00:00.500'), 100),
    seal(at('10:00:01.000')),
    ...pair(at('11:00:00.000'), 0),
    ...pair(at('13:00:00.000'), 0),
  ]
  const stopped = await reportOf('stopped', lines)
  assert.deepEqual(stopped.attention, ['lines waited 7200 s for their seal'])
  const late = await reportOf('late', [...lines, seal('2026-11-21T00:00:10.000Z')])
  assert.deepEqual([late.seals, late.attention], [1, ['lines waited 46810 s for their seal']])
  const nextDay = pair('2026-11-21T09:00:00.000Z', 0)
  const next = await reportOf('next', [...lines, ...nextDay], DAY + 86_400_000)
  assert.deepEqual([next.seals, next.attention], [0, ['lines waited 79200 s for their seal']])
})

it('names a store that was degraded before the day: a restart ends that, a rotation does not', async () => {
  const yesterday = '2026-11-19T20:00:00.000Z'
  const degraded = (timestamp: string, store: string, since?: string) =>
    event('STORE_DEGRADED', timestamp, { store, cause: 'ENOSPC', since })
  const restored = (timestamp: string, store: string, since: string) =>
    event('STORE_RESTORED', timestamp, { store, since })
  const long = await reportOf('long', [
    degraded(at('00:00:01.000'), 'limits', yesterday),
    restored(at('00:10:00.000'), 'webhooks', yesterday),
    degraded(at('01:00:01.000'), 'limits', yesterday),
    event('AUDIT_STOP', at('02:00:00.000'), { pid: 1, open: 0, reason: 'rotated' }),
    startRecord({ timestamp: at('02:00:00.000'), pid: 1, open: 0, refused: 0 }),
    event('AUDIT_STOP', at('03:00:00.000'), { pid: 1, open: 0, reason: 'SIGTERM' }),
    startRecord({ timestamp: at('03:00:01.000'), pid: 2, open: 0, recovered: 0 }),
  ])
  assert.deepEqual(long.degraded, [
    { from: yesterday, until: at('00:10:00.000'), reason: 'webhooks: cannot be written' },
    { from: yesterday, until: at('03:00:01.000'), reason: 'limits: ENOSPC' },
  ])
  // Each thread records STORE_RESTORED for itself.
  const shared = await reportOf('shared', [
    restored(at('05:00:00.000'), 'shared', yesterday),
    restored(at('05:00:00.001'), 'shared', yesterday),
  ])
  assert.equal(shared.degraded.length, 1)
})

it('takes a new file of the same process neither for a crash nor for the end of a degradation', async () => {
  const moved = (time: string, more: object) =>
    startRecord({ timestamp: at(time), pid: 1, open: 0, continues: '7', ...more })
  const { gaps, degraded, attention } = await reportOf('same-process', [
    startRecord({ timestamp: at('10:00:00.000'), pid: 1, open: 0, recovered: 0 }),
    event('STORE_DEGRADED', at('10:10:00.000'), { store: 'limits', cause: 'ENOSPC' }),
    moved('10:20:00.000', {}),
    event('AUDIT_FOREIGN', at('10:20:00.000'), { file: 'audit.ndjson.1', inode: '7', at: 5, found: 9 }),
    ...pair(at('10:30:00.000'), 0),
    // The AUDIT_STOP before this start is in the file that was removed.
    moved('10:40:00.000', { refused: 0, removed: true }),
  ])
  assert.deepEqual(gaps, [{ from: at('10:30:00.000'), until: at('10:40:00.000'), reason: 'removed' }])
  assert.deepEqual(degraded, [{ from: at('10:10:00.000'), reason: 'limits: ENOSPC' }])
  assert.deepEqual(attention, [
    `AUDIT_FOREIGN at ${at('10:20:00.000')}: others have written to the trail`,
    `AUDIT_START at ${at('10:40:00.000')}: the file before was removed while it was written`,
    `degraded from ${at('10:10:00.000')}: limits: ENOSPC`,
  ])
})

it('names a day without a record, and says when the trail begins', async () => {
  const DAY_MS = 86_400_000
  const lines = [
    startRecord({ timestamp: at('10:00:00.000'), pid: 1, open: 0 }),
    ...pair(at('23:59:59.000'), 60_000),
    event('AUDIT_STOP', '2026-11-21T00:10:00.000Z', { pid: 1, open: 0, reason: 'SIGTERM' }),
    startRecord({ timestamp: '2026-11-23T09:00:00.000Z', pid: 2, open: 0 }),
  ]
  const attention = async (days: number) =>
    (await reportOf(`records-${days}`, lines, DAY + days * DAY_MS)).attention
  const begins = `the trail begins at ${at('10:00:00.000')}`
  assert.deepEqual(await attention(-1), [`there is no record of 2026-11-19: ${begins}`])
  assert.deepEqual(await attention(0), [])
  assert.deepEqual(await attention(1), [])
  assert.deepEqual(await attention(2), [`there is no record of 2026-11-22: ${begins}`])
  assert.deepEqual(await attention(3), [])
  assert.deepEqual(await attention(4), [`there is no record of 2026-11-24: ${begins}`])
  const empty = await reportOf('empty', [])
  assert.deepEqual(empty.attention, ['there is no record of 2026-11-20: the trail has no record at all'])
  // This trail has no AUDIT_START, and its first line is torn.
  const [request = ''] = pair(at('10:00:00.000'), 5)
  const odd = await reportOf('odd', ['{"type":"API_R\n', request], DAY - DAY_MS)
  assert.deepEqual(odd.attention, [`there is no record of 2026-11-19: ${begins}`])
})

it('takes a day that a request lasted into for a day with records', async () => {
  const lines = pair('2026-11-19T23:59:00.000Z', 120_000)
  assert.deepEqual((await reportOf('into', lines)).attention, [])
})

it('reads a segment that was renamed or compressed since it was listed', async () => {
  const trail = new SealedTrail(join(dir, 'moved'))
  trail.start()
  trail.exchange()
  await trail.rotate()
  const [files] = await trailsOf([trail.file])
  const [{ path } = assert.fail()] = trail.closed
  renameSync(trail.file, `${trail.file}.1`)
  writeFileSync(`${path}.zst`, zstdCompressSync(readFileSync(path)))
  rmSync(path)
  assert.equal((await reportDay(files!.segments, DAY)).requests, 1)
})
