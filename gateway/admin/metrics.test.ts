import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Exchange } from '../exchange.ts'
import { REFUSALS } from '../refusals.ts'
import { createMetrics, type Metrics } from './metrics.ts'

async function lines(metrics: Metrics, name: string): Promise<string[]> {
  return (await metrics.expose()).split('\n').filter((line) => line.startsWith(`${name}{`))
}

it('an unusual method is counted as OTHER, and a request without a route has the route "none"', async () => {
  const metrics = createMetrics({ version: '1.2.3' })
  for (const method of ['GET', 'PROPFIND', '-', 'get']) metrics.closed({ method } as Exchange, 404, 0.001)
  assert.deepEqual(await lines(metrics, 'gateway_http_requests_total'), [
    'gateway_http_requests_total{route="none",method="GET",status="404"} 1',
    'gateway_http_requests_total{route="none",method="OTHER",status="404"} 3',
  ])
})

it('a status that HTTP does not define is counted as the first of its class, so that nobody makes hundreds of series', async () => {
  const metrics = createMetrics({ version: '1.2.3' })
  for (let status = 100; status < 600; status++) metrics.closed({ method: 'GET' } as Exchange, status, 0.001)
  const counted = await lines(metrics, 'gateway_http_requests_total')
  assert.ok(counted.length < 70, `${counted.length}`)
  assert.equal(counted.filter((line) => line.includes('status="5')).length, 12)
  for (const [status, count] of [
    ['429', 1],
    ['499', 1],
    ['500', 89],
  ] as const) {
    const line = `gateway_http_requests_total{route="none",method="GET",status="${status}"} ${count}`
    assert.ok(counted.includes(line), `${line} is not in\n${counted.join('\n')}`)
  }
})

it('a refusal is counted by its code, and all other codes are there with 0', async () => {
  const metrics = createMetrics({ version: '1.2.3' })
  metrics.closed({ method: 'GET', refusalCode: 'not_found' } as Exchange, 404, 0.001)
  const refused = await lines(metrics, 'gateway_refusals_total')
  assert.deepEqual(
    refused.filter((line) => !line.endsWith(' 0')),
    ['gateway_refusals_total{code="not_found"} 1'],
  )
  assert.equal(refused.length, Object.keys(REFUSALS).length, 'all others are there with 0')
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

it('while the event loop is held up, the lag and the active time grow', async () => {
  const metrics = createMetrics({ version: '1.2.3' })
  const look = async () => {
    const page = await metrics.expose()
    const value = (name: string) =>
      Number(new RegExp(`^gateway_event_loop_${name} (.*)$`, 'm').exec(page)?.[1])
    return {
      activeSeconds: value('active_seconds_total'),
      lateSeconds: value('lag_seconds_sum'),
      late: value('lag_seconds_count') - value('lag_seconds_bucket\\{le="0.1"\\}'),
    }
  }
  // The event loop begins after the first turn.
  await new Promise((resolve) => setTimeout(resolve, 1))
  const before = await look()
  const until = performance.now() + 500
  while (performance.now() < until);
  while ((await look()).late === before.late) await new Promise((resolve) => setTimeout(resolve, 5))
  const { activeSeconds, lateSeconds } = await look()
  // The timer was due after 250 ms.
  assert.ok(lateSeconds - before.lateSeconds >= 0.24)
  assert.ok(activeSeconds - before.activeSeconds >= 0.49)
})

it('a metric is on the page from its first use on, with help text and type', async () => {
  const metrics = createMetrics({ version: '1.2.3' })
  assert.doesNotMatch(await metrics.expose(), /gateway_ready/)
  metrics.gateway_ready.read(() => 1)
  assert.match(
    await metrics.expose(),
    /^# HELP gateway_ready 1 when \/readyz returns 200\.\n# TYPE gateway_ready gauge\ngateway_ready 1$/m,
  )
})

it('OpenMetrics has the trace of a request for each bucket, and the text format has none', async () => {
  const metrics = createMetrics({ version: '1.2.3' })
  const before = await metrics.expose()
  metrics.closed({ method: 'GET', trace: { traceId: 'a'.repeat(32) } } as Exchange, 200, 0.003)
  metrics.closed({ method: 'GET' } as Exchange, 200, 0.004)
  const page = await metrics.expose('openmetrics')
  assert.match(
    page,
    /\ngateway_http_request_duration_seconds_bucket\{le="0.005",route="none",method="GET"\} 2 # \{trace_id="a{32}"\} 0.003 \d+\.?\d*\n/,
  )
  assert.match(page, /\n# TYPE gateway_http_requests counter\ngateway_http_requests_total\{/)
  assert.match(page, /\n# TYPE process_cpu_seconds counter\nprocess_cpu_seconds_total /)
  assert.doesNotMatch(page, /_total_total/)
  assert.match(page, /\n# EOF\n$/)
  const names = (text: string) => text.split('\n').filter((line) => line.startsWith('# TYPE'))
  const now = names(await metrics.expose())
  assert.deepEqual(
    names(before).filter((line) => !now.includes(line)),
    [],
  )
})
