import assert from 'node:assert/strict'
import { it } from 'node:test'
import { pino } from 'pino'
import { createMetrics } from '../../admin/metrics.ts'
import { segmentReports } from '../data-files.ts'

it('faults with closed segments are counted from 0 on, and segments that are not shipped have a lag', () => {
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
