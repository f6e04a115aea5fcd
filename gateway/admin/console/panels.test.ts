import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { AuditState } from './wire.ts'

/** Functions of the page that make no elements. A static import would need the types of a browser. */
const { sealFacts } = await import(String(new URL('./page/panels.js', import.meta.url)))
const { follow } = await import(String(new URL('./page/stream.js', import.meta.url)))
const { latency, milliseconds, rate } = await import(String(new URL('./page/words.js', import.meta.url)))

function factsOf(more: Pick<AuditState, 'witnesses' | 'stamps'>): ReadonlyMap<string, unknown> {
  return new Map(sealFacts({ unshipped: 0, ...more }))
}

it('warns of witnesses and time stamps only when they are overdue, not before the next one is due', () => {
  const hour = 3600
  const facts = factsOf({
    witnesses: { lagSeconds: 3500, everySeconds: hour },
    stamps: { lagSeconds: 1800, everySeconds: hour },
  })
  assert.equal(facts.get('Witnesses behind'), '58 min')
  assert.equal(facts.get('Time stamp behind'), '30 min')
  const late = factsOf({
    witnesses: { lagSeconds: 661, everySeconds: 60 },
    stamps: { lagSeconds: 4201, everySeconds: hour },
  })
  assert.deepEqual(late.get('Witnesses behind'), { text: '11 min', is: 'warn' })
  assert.deepEqual(late.get('Time stamp behind'), { text: '70 min', is: 'warn' })
})

it('rates and latencies have one unit each, so that the numbers of a column can be compared', () => {
  assert.deepEqual([0, 0.0667, 1.25, 9.96, 1234.4].map(rate), ['0/s', '0.067/s', '1.3/s', '10/s', '1,234/s'])
  assert.deepEqual(
    [null, 1000, 1001].map((ms) => latency(ms).is),
    ['number', 'number', 'number warn'],
  )
  assert.deepEqual([null, 0.25, 12.4, 1500].map(milliseconds), ['–', '0.3 ms', '12 ms', '1,500 ms'])
})

it('an event is taken whole, whatever characters its texts have', async (t) => {
  const reason = 'alg "\u2028\u2029\r\n" is not accepted'
  const event = `event: fault\ndata: ${JSON.stringify({ reason })}\n\n`
  t.mock.method(globalThis, 'fetch', async () => new Response(event))
  const received = await new Promise((resolve) => {
    const stop = follow(undefined, {
      fault: resolve,
      lost: () => {
        stop()
        resolve('nothing')
      },
    })
  })
  assert.equal(received, reason)
})
