import assert from 'node:assert/strict'
import { it } from 'node:test'
import { createMetrics } from '../../admin/metrics.ts'
import { exposeUpstreams } from '../upstream-parts.ts'

it('an upstream in two groups is as ill in the metrics as the worse of them says', () => {
  const metrics = createMetrics({ version: '1.2.3' })
  const target = (url: string, isHealthy: boolean, state?: 'closed' | 'open') => {
    return {
      group: 'any',
      url,
      health: { isHealthy, cause: isHealthy ? '' : 'refused' },
      breaker: state && { state, cause: 'status 503' },
    }
  }
  const targets = [
    target('http://a', true, 'open'),
    target('http://a', false, 'closed'),
    target('http://b', true),
  ]
  exposeUpstreams(metrics, () => targets)
  const readings = (family: typeof metrics.gateway_upstream_healthy) =>
    family.samples().map(({ labels, value }) => [labels.upstream, value])
  assert.deepEqual(readings(metrics.gateway_upstream_healthy), [
    ['http://a', 0],
    ['http://b', 1],
  ])
  assert.deepEqual([...metrics.causes], [['gateway_upstream_healthy http://a', 'refused']])
  assert.deepEqual(readings(metrics.gateway_upstream_breaker_state), [['http://a', 2]])
  assert.equal(metrics.causes.get('gateway_upstream_breaker_state http://a'), 'last failure: status 503')
  targets.length = 0
  assert.deepEqual(readings(metrics.gateway_upstream_healthy), [])
})
