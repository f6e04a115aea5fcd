import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Exchange } from '../exchange.ts'
import { countedBy, exposeMerged } from './merged-metrics.ts'
import { createMetrics, type Metrics } from './metrics.ts'

const GET = { method: 'GET' } as Exchange

function threads(): [main: Metrics, one: Metrics, other: Metrics] {
  const version = '1.2.3'
  return [
    createMetrics({ version }),
    createMetrics({ version, worker: true }),
    createMetrics({ version, worker: true }),
  ]
}

/** As they arrive from other threads. */
async function snapshots(metrics: readonly Metrics[]) {
  return structuredClone(await Promise.all(metrics.map((each) => each.snapshot())))
}

it('counters and histograms of all threads are added up, label by label', async () => {
  const [main, one, other] = threads()
  one.closed(GET, 200, 0.002)
  other.closed(GET, 200, 0.2)
  other.closed(GET, 404, 0.002)
  const page = await exposeMerged(await snapshots([main, one, other]))
  assert.match(page, /^gateway_http_requests_total\{route="none",method="GET",status="200"\} 2$/m)
  assert.match(page, /^gateway_http_requests_total\{route="none",method="GET",status="404"\} 1$/m)
  assert.match(page, /^gateway_http_request_duration_seconds_bucket\{le="0.0025",.*\} 2$/m)
  assert.match(page, /^gateway_http_request_duration_seconds_count\{.*\} 3$/m)
  assert.match(page, /^gateway_http_request_duration_seconds_sum\{.*\} 0\.204/m)
})

it('gauges say what is true of all: what is open together, what the one in trouble sees, what the main thread says', async () => {
  const [main, one, other] = threads()
  for (const metrics of [one, other, other]) metrics.opened()
  const target = { group: 'default', url: 'http://a', breaker: undefined }
  one.watchUpstreams(() => [{ ...target, health: { isHealthy: true } }])
  other.watchUpstreams(() => [{ ...target, health: { isHealthy: false } }])
  main.configReload('limits.json', 'failure')
  const page = await exposeMerged(await snapshots([main, one, other]))
  assert.match(page, /^gateway_http_requests_in_flight 3$/m)
  assert.match(page, /^gateway_upstream_healthy\{upstream="http:\/\/a"\} 0$/m)
  assert.match(page, /^gateway_config_last_reload_successful\{file="limits.json"\} 0$/m)
  assert.match(page, /^gateway_build_info\{version="1.2.3",.*\} 1$/m)
})

it('what is true of the process is there once, and of each thread the memory added up', async () => {
  const [main, one, other] = threads()
  const all = await snapshots([main, one, other])
  const page = await exposeMerged(all)
  const value = (name: string, text = page) => Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1])
  const single = await main.expose()
  assert.ok(value('process_resident_memory_bytes') < 1.5 * value('process_resident_memory_bytes', single))
  assert.equal(value('process_start_time_seconds'), value('process_start_time_seconds', single))
  assert.ok(value('nodejs_heap_size_used_bytes') > 2 * value('nodejs_heap_size_used_bytes', single))
  assert.ok(
    !all
      .slice(1)
      .flat()
      .some(({ name }) => name.startsWith('process_')),
  )
})

it('a thread that is no more stays on the page with what it counted, without the state it was in', async () => {
  const [main, one, other] = threads()
  one.opened()
  one.closed(GET, 200, 0.002)
  one.opened()
  const [ownPart, dead, alive] = await snapshots([main, one, other])
  assert.ok(ownPart && dead && alive)
  const gone = countedBy([dead])
  const page = await exposeMerged([ownPart, alive, countedBy([gone, dead])])
  assert.match(page, /^gateway_http_requests_total\{.*status="200"\} 2$/m)
  assert.match(page, /^gateway_http_request_duration_seconds_count\{.*\} 2$/m)
  assert.match(page, /^gateway_http_requests_in_flight 0$/m)
})
