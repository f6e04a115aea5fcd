import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { it } from 'node:test'
import { countEverything } from './count-everything.test-support.ts'
import { createMetrics } from './metrics.ts'

/**
 * The page without help texts; of what counts by itself, what every system has, by name and type; of refusals, those that
 * happened.
 */
function contractOf(page: string): string {
  const kept = page
    .replaceAll(/^# HELP .*\n/gm, '')
    .replaceAll(/^(?:# TYPE )?process_.*\n/gm, '')
    .replaceAll(/^(?:nodejs|gateway_event_loop)_.*\n/gm, '')
    .replaceAll(/^gateway_refusals_total\{.*\} 0\n/gm, '')
    .replaceAll(/node="[^"]*"/g, 'node="…"')
  return `${kept.trim().replaceAll(/\n{2,}/g, '\n')}\n`
}

it('the page is byte for byte what it has always been', async () => {
  const metrics = createMetrics({ version: '1.2.3' })
  countEverything(metrics)
  assert.equal(metrics.contentType, 'text/plain; version=0.0.4; charset=utf-8')
  const expected = readFileSync(new URL('exposition.fixtures/page.prom', import.meta.url), 'utf8')
  assert.equal(contractOf(await metrics.expose()), expected)
})
