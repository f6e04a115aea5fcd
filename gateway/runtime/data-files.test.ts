import assert from 'node:assert/strict'
import { mkdirSync, renameSync, rmdirSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { pino } from 'pino'
import { createMetrics } from '../admin/metrics.ts'
import { openTrail } from '../audit/open-trail.ts'
import { endOf, requestLine, smallDisk, temporaryDirectory } from '../audit/trail.test-support.ts'
import { segmentReports, trailOptions } from './data-files.ts'
import type { StartupConfiguration } from './startup/read-configuration.ts'

/** A trail on a disk that can be full, and what was logged of it. */
function loggedTrail(t: TestContext) {
  const logged: string[] = []
  const write = (_: object, message: string) => logged.push(message.replace('the audit trail ', ''))
  const audit = { file: `${temporaryDirectory(t)}/audit.ndjson`, durability: 'written' }
  const startup = {
    settings: { audit },
    log: { info: write, error: write },
  } as unknown as StartupConfiguration
  const disk = smallDisk(t)
  const trail = openTrail(trailOptions(startup, createMetrics({ version: '1.2.3' })))
  t.after(() => trail.close('end'))
  return { trail, disk, logged, file: audit.file }
}

test('the log says once per outage that the trail can be written again', async (t) => {
  const clock = { ms: 0 }
  t.mock.method(performance, 'now', () => clock.ms)
  const { trail, disk, logged } = loggedTrail(t)
  for (const atMs of [0, 2000]) {
    clock.ms = atMs
    logged.length = 0
    disk.roomBytes = 0
    assert.ok(await endOf(trail.append(requestLine('a'))))
    assert.equal(trail.recheck(), false)
    assert.deepEqual(logged, ['cannot be written'])
    disk.roomBytes = Number.POSITIVE_INFINITY
    assert.equal(trail.recheck(), true)
    assert.equal(await endOf(trail.append(requestLine('b'))), undefined)
    assert.deepEqual(logged, ['cannot be written', 'can be written again'])
  }
})

test('a file that cannot be opened anew is no outage: the trail goes on in the old one', async (t) => {
  const { trail, logged, file } = loggedTrail(t)
  renameSync(file, `${file}.old`)
  mkdirSync(file)
  trail.reopen()
  assert.deepEqual(logged, ['cannot be written'])
  assert.equal(await endOf(trail.append(requestLine('a'))), undefined)
  rmdirSync(file)
  trail.reopen()
  assert.equal(await endOf(trail.append(requestLine('b'))), undefined)
  assert.deepEqual(logged, ['cannot be written'])
})

test('a rotation and a hand-over that comes to nothing are no outage in the log', async (t) => {
  const { trail, logged } = loggedTrail(t)
  trail.reopen()
  assert.equal(await trail.suspend('restart'), undefined)
  trail.goOn()
  assert.equal(trail.writable, true)
  assert.deepEqual(logged, [])
})

test('faults with closed segments are counted from 0 on, and segments that are not shipped have a lag', () => {
  const metrics = createMetrics({ version: '1.2.3' })
  const reports = segmentReports({ log: pino({ enabled: false }), metrics })
  const errors = metrics.gateway_audit_segment_errors_total
  const lag = () => metrics.gateway_audit_ship_lag_seconds.samples()[0]?.value ?? Number.NaN
  assert.deepEqual(
    errors.samples().map(({ labels, value }) => [labels.task, value]),
    [
      ['compress', 0],
      ['ship', 0],
      ['prune', 0],
    ],
  )
  assert.equal(lag(), 0)
  reports.failed('ship', 'ECONNREFUSED')
  reports.unshipped(2, Date.now() - 60_000)
  assert.equal(errors.samples()[1]?.value, 1)
  assert.equal(metrics.gateway_audit_unshipped_segments.samples()[0]?.value, 2)
  assert.ok(lag() >= 60 && lag() < 70)
})
