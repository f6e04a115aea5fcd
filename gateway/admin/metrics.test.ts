import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Exchange } from '../exchange.ts'
import { createMetrics } from './metrics.ts'

async function lines(metrics: ReturnType<typeof createMetrics>, name: string): Promise<string[]> {
  return (await metrics.expose()).split('\n').filter((line) => line.startsWith(`${name}{`))
}

it('a method that is not one of the usual is counted as OTHER, and a request without a route under none', async () => {
  const metrics = createMetrics({ version: '1.2.3' })
  for (const method of ['GET', 'PROPFIND', '-', 'get']) metrics.closed({ method } as Exchange, 404, 0.001)
  assert.deepEqual(await lines(metrics, 'gateway_http_requests_total'), [
    'gateway_http_requests_total{route="none",method="GET",status="404"} 1',
    'gateway_http_requests_total{route="none",method="OTHER",status="404"} 3',
  ])
})

it('a request in flight is counted from its opening to its close, and a refusal by its code', async () => {
  const metrics = createMetrics({ version: '1.2.3' })
  metrics.opened()
  metrics.opened()
  metrics.closed({ method: 'GET', refusalCode: 'not_found' } as Exchange, 404, 0.001)
  assert.match(await metrics.expose(), /^gateway_http_requests_in_flight 1$/m)
  assert.deepEqual(await lines(metrics, 'gateway_refusals_total'), [
    'gateway_refusals_total{code="not_found"} 1',
  ])
})

it('the last reload of a file that failed is 0 until one succeeds', async () => {
  const metrics = createMetrics({ version: '1.2.3' })
  for (const [result, value] of [
    ['failure', 0],
    ['success', 1],
  ] as const) {
    metrics.configReload('limits.json', result)
    assert.deepEqual(await lines(metrics, 'gateway_config_last_reload_successful'), [
      `gateway_config_last_reload_successful{file="limits.json"} ${value}`,
    ])
  }
})
