import assert from 'node:assert/strict'
import { it } from 'node:test'
import { pino } from 'pino'
import { createMetrics } from '../admin/metrics.ts'
import { newStoreCounts } from '../store/store-counts.ts'
import { StoreWatch } from './store-watch.ts'

function watching(now?: () => number) {
  const lines: { level: number; msg: string; store: string; cause?: string }[] = []
  const records: { type: string; timestamp: string; store: string; cause?: string; since?: string }[] = []
  const metrics = createMetrics({ version: '1.2.3' })
  const watch = new StoreWatch({
    ...(now && { now }),
    log: pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) }),
    metrics,
    trail: { settle: (record: string) => void records.push(JSON.parse(record)) },
  })
  return { watch, metrics, lines, records }
}

it('a shared store that goes away and comes back has one log line and one record for each', () => {
  const { watch, lines, records } = watching()
  watch.away('no reply within 25 ms')
  watch.away('no reply within 25 ms')
  watch.observe('shared', true)
  watch.observe('shared', true)
  assert.deepEqual(
    lines.map(({ msg, store, cause }) => ({ msg, store, cause })),
    [
      { msg: 'the shared store is away', store: 'shared', cause: 'no reply within 25 ms' },
      { msg: 'the shared store responds again', store: 'shared', cause: undefined },
    ],
  )
  assert.deepEqual(
    records.map(({ type, store, cause }) => ({ type, store, cause })),
    [
      { type: 'STORE_DEGRADED', store: 'shared', cause: 'no reply within 25 ms' },
      { type: 'STORE_RESTORED', store: 'shared', cause: undefined },
    ],
  )
  watch.away('Socket closed unexpectedly')
  assert.equal(records.at(-1)?.cause, 'Socket closed unexpectedly')
})

it('a store that cannot be connected to again and again is one line until the cause changes', async () => {
  const { watch, metrics, lines, records } = watching()
  for (let tries = 0; tries < 100; tries++) watch.fault('shared', 'connect ECONNREFUSED')
  watch.fault('shared', 'WRONGPASS invalid username-password pair or user is disabled.')
  assert.deepEqual(
    lines.map(({ cause }) => cause),
    ['connect ECONNREFUSED', 'WRONGPASS invalid username-password pair or user is disabled.'],
  )
  assert.deepEqual(records, [])
  assert.match(await metrics.expose(), /^gateway_store_write_errors_total\{store="shared"\} 101$/m)
})

it('a shared store shows in the metrics from the moment it is configured', async () => {
  const { watch, metrics } = watching()
  watch.expose({ counts: newStoreCounts(), isAway: true, unsentSessions: 0 })
  assert.match(await metrics.expose(), /^gateway_store_writable\{store="shared"\} 0$/m)
})

it('what lasts is recorded again each hour, with its beginning, and not once it is over', () => {
  let nowMs = 0
  const { watch, records, lines } = watching(() => nowMs)
  watch.repeat()
  watch.fault('limits', 'ENOSPC')
  watch.observe('limits', false)
  watch.observe('webhooks', false)
  for (nowMs = 0; nowMs < 7_300_000; nowMs += 1000) {
    if (nowMs === 3_700_000) watch.observe('webhooks', true)
    watch.observe('limits', false)
    watch.repeat()
  }
  watch.observe('limits', true)
  nowMs += 7_200_000
  watch.repeat()
  const since = records[0]?.timestamp
  const webhooksSince = records[1]?.timestamp
  assert.deepEqual(
    records.map(({ timestamp, ...record }) => record),
    [
      { type: 'STORE_DEGRADED', store: 'limits', cause: 'ENOSPC' },
      { type: 'STORE_DEGRADED', store: 'webhooks' },
      { type: 'STORE_DEGRADED', store: 'limits', cause: 'ENOSPC', since },
      { type: 'STORE_DEGRADED', store: 'webhooks', since: webhooksSince },
      { type: 'STORE_RESTORED', store: 'webhooks', since: webhooksSince },
      { type: 'STORE_DEGRADED', store: 'limits', cause: 'ENOSPC', since },
      { type: 'STORE_RESTORED', store: 'limits', since },
    ],
  )
  assert.equal(lines.filter(({ msg }) => msg === 'the store cannot be written').length, 2)
})
