import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { it } from 'node:test'
import type { Exchange } from '../exchange.ts'
import { exposeMerged } from './merged-metrics.ts'
import { createMetrics, type Metrics } from './metrics.ts'

/** Counts everything that there is to count. */
function countAll(metrics: Metrics): void {
  for (let request = 0; request < 3; request++) metrics.opened()
  metrics.closed({ method: 'GET', route: { path: '/a "quoted" \\ path' } } as Exchange, 200, 0.25)
  metrics.closed({ method: 'BREW', refusalCode: 'not_found' } as Exchange, 404, 31)
  metrics.abandoned(3)
  for (let tunnel = 0; tunnel < 2; tunnel++) metrics.tunnelOpened()
  metrics.tunnelEnded('closed')
  metrics.upstreamAnswered('http://127.0.0.1:4000', 0.001)
  metrics.upstreamHealth('http://127.0.0.1:4000', false)
  metrics.authDecision('jwt', 'accepted')
  metrics.limitDecision('transfers', 'shadow_refused')
  metrics.auditRecord('API_REQUEST')
  metrics.auditWriteError()
  metrics.storeWritable('limits', true)
  metrics.storeWriteError('limits')
  metrics.configReload('limits.json', 'failure')
  metrics.certificateExpiry(1_800_000_000)
}

/** The page without help texts; of what the library counts by itself, what every system has, by name and type. */
function contractOf(page: string): string {
  const kept = page
    .replaceAll(/^# HELP .*\n/gm, '')
    .replaceAll(/^(?:# TYPE )?process_.*\n/gm, '')
    .replaceAll(/^nodejs_.*\n/gm, '')
    .replaceAll(/node="[^"]*"/g, 'node="…"')
  return `${kept.trim().replaceAll(/\n{2,}/g, '\n')}\n`
}

function expected(name: string): string {
  return readFileSync(new URL(`exposition.fixtures/${name}.prom`, import.meta.url), 'utf8')
}

it('the page of one thread is byte for byte what it has always been', async () => {
  const metrics = createMetrics({ version: '1.2.3' })
  countAll(metrics)
  assert.equal(metrics.contentType, 'text/plain; version=0.0.4; charset=utf-8')
  assert.equal(contractOf(await metrics.expose()), expected('one-thread'))
})

it('so is the page of three threads', async () => {
  const threads = [false, true, true].map((worker) => createMetrics({ version: '1.2.3', worker }))
  threads.forEach(countAll)
  const snapshots = structuredClone(await Promise.all(threads.map((thread) => thread.snapshot())))
  assert.equal(contractOf(await exposeMerged(snapshots)), expected('three-threads'))
})
