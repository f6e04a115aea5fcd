import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { it } from 'node:test'
import { countEverything } from './count-everything.test-support.ts'
import { exposeMerged } from './merged-metrics.ts'
import { createMetrics } from './metrics.ts'

/**
 * The page without help texts; of what counts by itself, what every system has, by name and type; of refusals, those that
 * happened.
 */
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
  metrics.shedRatio(0.3)
  metrics.overlooked('/shadow/*', 'missing_token')
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
    .replaceAll(/^(?:nodejs|gateway_event_loop)_.*\n/gm, '')
    .replaceAll(/^gateway_refusals_total\{.*\} 0\n/gm, '')
    .replaceAll(/node="[^"]*"/g, 'node="…"')
  return `${kept.trim().replaceAll(/\n{2,}/g, '\n')}\n`
}

function expected(name: string): string {
  return readFileSync(new URL(`exposition.fixtures/${name}.prom`, import.meta.url), 'utf8')
}

it('the page of one thread is byte for byte what it has always been', async () => {
  const metrics = createMetrics({ version: '1.2.3' })
  countEverything(metrics)
  assert.equal(metrics.contentType, 'text/plain; version=0.0.4; charset=utf-8')
  assert.equal(contractOf(await metrics.expose()), expected('one-thread'))
})

it('so is the page of three threads', async () => {
  const threads = [false, true, true].map((worker) => {
    const metrics = createMetrics({ version: '1.2.3', worker })
    countEverything(metrics, !worker)
    return metrics
  })
  const snapshots = structuredClone(await Promise.all(threads.map((thread) => thread.snapshot())))
  assert.equal(contractOf(await exposeMerged(snapshots)), expected('three-threads'))
})
