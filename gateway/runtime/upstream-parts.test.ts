import assert from 'node:assert/strict'
import { it } from 'node:test'
import { createMetrics } from '../admin/metrics.ts'
import type { Gateway } from '../gateway.ts'
import type { UpstreamGroups } from '../upstream/upstream-groups.ts'
import { exposeUpstreams, observeUpstreams } from './upstream-parts.ts'

function target(url: string, isHealthy: boolean, state?: 'closed' | 'open', group = 'any') {
  return {
    group,
    url,
    health: { isHealthy, cause: isHealthy ? '' : 'refused', attempts: { answered: 1, '5xx': 2, failed: 0 } },
    breaker: state && { state, cause: 'status 503' },
  }
}

it('a group is healthy in the metrics as long as one of its upstreams is', () => {
  const metrics = createMetrics({ version: '1.2.3' })
  exposeUpstreams(metrics, () => [
    target('http://a', false, undefined, 'payments'),
    target('http://a', false),
    target('http://b', true),
  ])
  assert.deepEqual(
    metrics.gateway_upstream_group_healthy.samples().map(({ labels, value }) => [labels.group, value]),
    [
      ['payments', 0],
      ['any', 1],
    ],
  )
  assert.equal(metrics.causes.get('gateway_upstream_group_healthy payments'), 'http://a: refused')
})

it('an upstream in two groups has the worse of its two states in the metrics', () => {
  const metrics = createMetrics({ version: '1.2.3' })
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
  const attempts = metrics.gateway_upstream_attempts_total.samples()
  assert.deepEqual(
    attempts.map(({ labels: { upstream, outcome }, value }) => [upstream, outcome, value]),
    [
      ['http://a', 'answered', 2],
      ['http://a', '5xx', 4],
      ['http://a', 'failed', 0],
      ['http://b', 'answered', 1],
      ['http://b', '5xx', 2],
      ['http://b', 'failed', 0],
    ],
  )
  assert.deepEqual([...metrics.causes], [['gateway_upstream_healthy http://a', 'refused']])
  assert.deepEqual(readings(metrics.gateway_upstream_breaker_state), [['http://a', 2]])
  assert.equal(metrics.causes.get('gateway_upstream_breaker_state http://a'), 'last failure: status 503')
  targets.length = 0
  assert.deepEqual(readings(metrics.gateway_upstream_healthy), [])
})

it('the attempts of an upstream never fall, though a reload removes one of its two groups', () => {
  const metrics = createMetrics({ version: '1.2.3' })
  const targets = [target('http://a', true), target('http://a', true, undefined, 'payments')]
  exposeUpstreams(metrics, () => targets)
  const read = () => metrics.gateway_upstream_attempts_total.samples().map(({ value }) => value)
  assert.deepEqual(read(), [2, 4, 0])
  targets.pop()
  assert.deepEqual(read(), [2, 4, 0])
  targets[0] = target('http://b', true)
  assert.deepEqual(read(), [1, 2, 0])
})

it('a breaker that a reload replaced is neither logged nor counted when it opens', () => {
  const metrics = createMetrics({ version: '1.2.3' })
  const lines: object[] = []
  const log = { warn: (line: object) => lines.push(line) } as unknown as Gateway['log']
  const targets = [target('http://a', true, 'closed')]
  const { onBreaker } = observeUpstreams({ log, metrics }, () => ({ targets }) as unknown as UpstreamGroups)
  onBreaker('any', 'http://a', 'open')
  assert.deepEqual([lines, metrics.gateway_upstream_breaker_opened_total.samples()], [[], []])
  targets[0] = target('http://a', true, 'open')
  onBreaker('any', 'http://a', 'open')
  assert.deepEqual(lines, [{ group: 'any', upstream: 'http://a', state: 'open' }])
})
