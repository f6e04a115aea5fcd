import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { type ExporterOptions, SpanExporter } from './span-exporter.ts'
import type { Posted } from './span-post.ts'

const TAKEN: Posted = { delivered: true, rejected: 0, reason: '' }
const LATER: Posted = { delivered: false, mayRetry: true, retryAfterMs: undefined, cause: 'away' }
const NEVER = new Promise<void>(() => {})
const ENVELOPE = { head: '[', tail: ']' }

/** An exporter whose receiver gives these responses, and then takes everything. */
function exporter(responses: (Posted | Promise<Posted>)[] = [], options: Partial<ExporterOptions> = {}) {
  const bodies: string[] = []
  const told: string[] = []
  const settled = Promise.withResolvers<void>()
  const made = new SpanExporter({
    envelope: ENVELOPE,
    post: async (body, signal) => {
      bodies.push(body.toString())
      const aborted = Promise.withResolvers<Posted>()
      signal.addEventListener('abort', () => aborted.resolve(LATER))
      if (signal.aborted) return LATER
      return Promise.race([responses.shift() ?? TAKEN, aborted.promise])
    },
    delayMs: 1,
    maxQueue: 1000,
    firstRetryMs: 1,
    reports: {
      exported: (spans) => {
        told.push(`exported ${spans}`)
        settled.resolve()
      },
      dropped: (reason, spans) => {
        told.push(`dropped ${spans} ${reason}`)
        settled.resolve()
      },
      fault: (cause) => told.push(cause),
    },
    ...options,
  })
  return { made, bodies, told, settled: settled.promise }
}

describe('SpanExporter', () => {
  it('sends the spans of a moment together', async () => {
    const { made, bodies, told, settled } = exporter()
    made.add('1,2', 2)
    made.add('3', 1)
    await settled
    assert.deepEqual([bodies, told], [['[1,2,3]'], ['exported 3']])
  })

  it('uses the memory of a delivered batch again, and never the memory of a batch whose post failed', async () => {
    const refused: Posted = { ...LATER, mayRetry: false }
    const responses: Posted[] = [TAKEN, refused, TAKEN, TAKEN]
    const memories: ArrayBufferLike[] = []
    const bodies: string[] = []
    let over = Promise.withResolvers<void>()
    const { made } = exporter([], {
      post: async (body) => {
        memories.push(body.buffer)
        bodies.push(body.toString())
        return responses[memories.length - 1] as Posted
      },
      reports: { exported: () => over.resolve(), dropped: () => over.resolve(), fault: () => undefined },
    })
    for (const text of ['11', '2', '33', '4']) {
      over = Promise.withResolvers()
      made.add(text, 1)
      await over.promise
      await setImmediate()
    }
    assert.deepEqual(bodies, ['[11]', '[2]', '[33]', '[4]'])
    assert.deepEqual(
      memories.map((memory) => memories.indexOf(memory)),
      [0, 0, 2, 2],
    )
  })

  it('sends a batch again that the receiver may take later, and no other batch before it', async () => {
    const { made, bodies, told, settled } = exporter([LATER, { ...LATER, retryAfterMs: 0 }])
    made.add('1', 1)
    await settled
    assert.deepEqual(bodies, ['[1]', '[1]', '[1]'])
    assert.deepEqual(told, ['away', 'away', 'exported 1'])
  })

  it('waits between posts to a receiver that says "at once" each time', async () => {
    const atOnce = Array.from({ length: 50 }, () => ({ ...LATER, retryAfterMs: 0 }))
    const { made, bodies } = exporter(atOnce, { firstRetryMs: 60_000 })
    made.add('1', 1)
    while (bodies.length === 0) await setImmediate()
    for (let turns = 0; turns < 200; turns++) await setImmediate()
    assert.equal(bodies.length, 1)
    await made.close(0, NEVER)
  })

  it('drops a batch that the receiver will not take, and counts the spans that the receiver leaves out', async () => {
    const refused = exporter([{ ...LATER, mayRetry: false }])
    refused.made.add('1', 1)
    await refused.settled
    assert.deepEqual(refused.told, ['away', 'dropped 1 refused'])
    const partly = exporter([{ delivered: true, rejected: 2, reason: 'too old' }])
    partly.made.add('1,2,3', 3)
    await partly.settled
    assert.deepEqual(partly.told, ['exported 1', 'dropped 2 refused', 'the receiver says: too old'])
  })

  it('keeps as many spans as it may, and drops further ones', async () => {
    const { made, told, bodies } = exporter([new Promise(() => {})], { maxQueue: 128, delayMs: 60_000 })
    for (let i = 0; i < 1000; i++) made.add('1', 1)
    // The first 64 are under way.
    const dropped = told.filter((line) => line === 'dropped 1 queue_full').length
    assert.deepEqual([bodies.length, dropped, made.hasRoom], [1, 1000 - 64 - 128, false])
    await made.close(0, NEVER)
  })

  it('keeps no more bytes than its buffers have, however long the spans are', () => {
    const { made, told } = exporter([new Promise(() => {})], { maxQueue: 512, delayMs: 60_000 })
    const long = 'x'.repeat(20_000)
    for (let i = 0; i < 100; i++) made.add(long, 1)
    // Two buffers of 256 KiB wait and one is under way; each has room for the worst encoding.
    const kept = 100 - told.filter((line) => line === 'dropped 1 queue_full').length
    assert.ok(kept > 0 && kept <= 3 * 13, String(kept))
    made.add('x'.repeat(300_000), 1)
    assert.equal(told.at(-1), 'dropped 1 queue_full')
  })

  it('sends everything once when it closes, also what waited to be sent again', async () => {
    const { made, bodies, told } = exporter([LATER], { firstRetryMs: 60_000, delayMs: 1 })
    made.add('1', 1)
    while (told.length === 0) await setImmediate()
    made.add('2', 1)
    await made.close(10_000, NEVER)
    assert.deepEqual(bodies, ['[1]', '[1]', '[2]'])
    assert.deepEqual(told, ['away', 'exported 1', 'exported 1'])
    made.add('3', 1)
    assert.equal(told.at(-1), 'dropped 1 stopped')
  })

  it('waits for a stalling receiver no longer than it may when it closes', async () => {
    const stalls = new Promise<Posted>(() => {})
    const late = exporter([stalls], { delayMs: 60_000 })
    late.made.add('1', 1)
    await late.made.close(5, NEVER)
    assert.deepEqual(late.told, ['away', 'dropped 1 stopped'])
    const hurried = exporter([stalls], { delayMs: 60_000 })
    hurried.made.add('1', 1)
    await hurried.made.close(600_000, Promise.resolve())
    assert.equal(hurried.told.at(-1), 'dropped 1 stopped')
  })
})
