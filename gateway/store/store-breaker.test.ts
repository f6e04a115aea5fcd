import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ErrorReply } from '@redis/client'
import type { StoreReply } from './connection/store-link.ts'
import { StoreBreaker, type StoreCall } from './store-breaker.ts'
import { newStoreCounts } from './store-counts.ts'

function manualTime() {
  let nowMs = 0
  let timers: { dueMs: number; run: () => void }[] = []
  let soon: (() => void)[] = []
  const settle = async () => {
    for (let i = 0; i < 4; i++) await Promise.resolve()
  }
  return {
    timers: {
      nowMs: () => nowMs,
      after: (ms: number, run: () => void) => {
        const timer = { dueMs: nowMs + ms, run }
        timers.push(timer)
        return () => {
          timers = timers.filter((other) => other !== timer)
        }
      },
      soon: (run: () => void) => void soon.push(run),
      random: () => 1,
    },
    get armed() {
      return timers.length
    },
    /** Lets time pass; timers fire when they are due, or `lateMs` later. */
    async pass(ms: number, lateMs = 0) {
      const endMs = nowMs + ms
      for (;;) {
        const next = timers.filter(({ dueMs }) => dueMs <= endMs).sort((a, b) => a.dueMs - b.dueMs)[0]
        if (next === undefined) break
        timers = timers.filter((timer) => timer !== next)
        nowMs = Math.max(nowMs, next.dueMs + lateMs)
        next.run()
        await settle()
        await this.turn()
      }
      nowMs = Math.max(nowMs, endMs)
    },
    async turn() {
      const due = soon
      soon = []
      for (const run of due) run()
      await settle()
    },
    settle,
  }
}

interface Sent {
  readonly args: readonly string[]
  reply(reply: StoreReply): void
  fail(error: Error): void
}

function setUp() {
  const time = manualTime()
  const sent: Sent[] = []
  const events: string[] = []
  const counts = newStoreCounts()
  let resets = 0
  let ready = (): void => undefined
  const breaker = new StoreBreaker({
    connection: {
      send: (args) =>
        new Promise<StoreReply>((resolve, reject) => sent.push({ args, reply: resolve, fail: reject })),
      reset: () => {
        resets++
      },
      onReady: (listener) => {
        ready = listener
      },
    },
    counts,
    timers: time.timers,
    observer: {
      onAway: (cause) => events.push(`away: ${cause}`),
      onBack: (awayMs) => events.push(`back after ${awayMs}`),
    },
    probeKey: 'first',
  })
  const replies: (StoreReply | undefined)[] = []
  const call = (key: string): StoreCall => ({ args: ['GET', key], key, done: (reply) => replies.push(reply) })
  return {
    ...{ breaker, time, sent, events, counts, replies, call },
    ready: () => ready(),
    get resets() {
      return resets
    },
  }
}

/** A breaker whose first probe had its reply. */
async function reached() {
  const parts = setUp()
  parts.ready()
  await parts.time.pass(0)
  parts.sent.shift()?.reply('OK')
  await parts.time.settle()
  assert.equal(parts.breaker.isOpen, false)
  return parts
}

test('a breaker begins open, and the first probe closes it without a report', async () => {
  const { breaker, ready, time, sent, replies, call, events } = setUp()
  breaker.send(call('a'))
  assert.deepEqual(replies, [undefined])
  assert.equal(breaker.wasReached, false)
  ready()
  await time.pass(0)
  assert.deepEqual(sent[0]?.args, ['SET', 'first:probe', '1', 'PX', '1000'])
  sent[0]?.reply('OK')
  await time.settle()
  assert.deepEqual([breaker.isOpen, breaker.wasReached, events], [false, true, []])
})

test('all commands share one timer, and no timer is left when all have replies', async () => {
  const { breaker, time, sent, replies, call, counts } = await reached()
  for (let i = 0; i < 100; i++) breaker.send(call(`${i}`))
  assert.equal(time.armed, 1)
  await time.pass(10)
  for (const each of sent) each.reply('x')
  await time.settle()
  assert.equal(replies.length, 100)
  await time.pass(100)
  assert.equal(time.armed, 0)
  assert.equal(breaker.isOpen, false)
  assert.deepEqual([counts.roundTrips, counts.roundTripMs, counts.outages], [100, 1000, 0])
  assert.equal(counts.latency[5], 100, 'up to 10 ms')
})

test('25 ms after a command without a reply, all commands learn that the store is away, later ones at once', async () => {
  const { breaker, time, replies, call, events } = await reached()
  breaker.send(call('a'))
  await time.pass(20)
  breaker.send(call('b'))
  await time.pass(4)
  assert.deepEqual(replies, [])
  await time.pass(1)
  assert.deepEqual(replies, [undefined, undefined])
  assert.deepEqual(events, ['away: no reply within 25 ms'])
  breaker.send(call('c'))
  assert.equal(replies.length, 3)
  assert.equal(breaker.pending, 0)
})

test('the deadline is that of the oldest command, whichever replies came in between', async () => {
  const { breaker, time, sent, call, events } = await reached()
  breaker.send(call('a'))
  await time.pass(10)
  breaker.send(call('b'))
  sent[0]?.reply('x')
  await time.settle()
  await time.pass(24)
  assert.deepEqual(events, [])
  await time.pass(1)
  assert.deepEqual(events, ['away: no reply within 25 ms'])
})

test('a reply that waits to be read when the deadline passes is in time', async () => {
  const { breaker, time, sent, replies, call, events } = await reached()
  breaker.send(call('a'))
  time.timers.soon(() => undefined)
  const passing = time.pass(25)
  sent[0]?.reply('x')
  await passing
  assert.deepEqual([replies, events, breaker.isOpen], [['x'], [], false])
})

test('a deadline that our own event loop was too busy to keep is given once more', async () => {
  const { breaker, time, sent, replies, call, events } = await reached()
  breaker.send(call('a'))
  await time.pass(25, 40)
  assert.deepEqual(events, [])
  sent[0]?.reply('x')
  await time.settle()
  assert.deepEqual(replies, ['x'])
  breaker.send(call('b'))
  await time.pass(25, 40)
  await time.pass(25)
  assert.deepEqual(events, ['away: no reply within 25 ms'])
})

test('late replies are ignored', async () => {
  const { breaker, time, sent, replies, call, counts } = await reached()
  breaker.send(call('a'))
  await time.pass(25)
  sent[0]?.reply('late')
  await time.settle()
  assert.deepEqual(replies, [undefined])
  assert.equal(counts.roundTrips, 0)
})

test('an error opens the breaker at once, except when the server lacks the script, which it then gets', async () => {
  const { breaker, time, sent, replies, call, events, counts } = await reached()
  breaker.send({ ...call('a'), args: ['EVALSHA', 'sha', '1', 'a'], script: 'return 1' })
  sent[0]?.fail(new ErrorReply('NOSCRIPT No matching script.'))
  await time.settle()
  assert.deepEqual(sent[1]?.args, ['EVAL', 'return 1', '1', 'a'])
  assert.deepEqual([counts.scriptReloads, events], [1, []])
  sent[1]?.reply(1)
  await time.settle()
  assert.deepEqual(replies, [1])
  breaker.send(call('b'))
  breaker.send(call('c'))
  sent[2]?.fail(new ErrorReply('OOM command not allowed'))
  await time.settle()
  assert.deepEqual(events, ['away: OOM command not allowed'])
  assert.deepEqual(replies, [1, undefined, undefined])
})

test('the breaker probes the server that failed, ever more rarely, until a reply comes in time', async () => {
  const { breaker, time, sent, call, events } = await reached()
  breaker.send(call('{tag}'))
  sent[0]?.fail(new Error('gone'))
  await time.settle()
  const probeMs: number[] = []
  for (let i = 0; i < 6; i++) {
    const count = sent.length
    const beganMs = time.timers.nowMs()
    while (sent.length === count) await time.pass(10)
    probeMs.push(time.timers.nowMs() - beganMs)
    sent.at(-1)?.fail(new Error('gone'))
    await time.settle()
  }
  assert.deepEqual(probeMs, [100, 200, 400, 800, 1000, 1000])
  assert.equal(sent.at(-1)?.args[1], '{tag}:probe')
  await time.pass(1000)
  sent.at(-1)?.reply('OK')
  await time.settle()
  assert.deepEqual(events, ['away: gone', 'back after 4500'])
  assert.equal(breaker.isOpen, false)
})

test('a frozen store gets one probe at a time, and after half a second a new connection', async () => {
  const parts = await reached()
  const { breaker, time, sent, call } = parts
  breaker.send(call('a'))
  await time.pass(25)
  await time.pass(599)
  assert.equal(sent.length, 2, 'the command and one probe')
  assert.equal(parts.resets, 0)
  await time.pass(1)
  assert.equal(parts.resets, 1)
  sent[1]?.reply('late')
  await time.settle()
  assert.equal(breaker.isOpen, true)
  parts.ready()
  await time.pass(100)
  sent.at(-1)?.reply('OK')
  await time.settle()
  assert.equal(breaker.isOpen, false)
})

test('a probe whose reply comes late does not close the breaker', async () => {
  const { breaker, time, sent, call } = await reached()
  breaker.send(call('a'))
  await time.pass(25)
  await time.pass(100)
  await time.pass(26)
  sent[1]?.reply('OK')
  await time.settle()
  assert.equal(breaker.isOpen, true)
})

test('a store that comes and goes is probed ever more rarely until it stays', async () => {
  const { breaker, time, sent, call } = await reached()
  await time.pass(20_000)
  const waits: number[] = []
  for (const stayMs of [0, 0, 20_000, 0]) {
    await time.pass(stayMs)
    breaker.send(call('a'))
    sent.at(-1)?.fail(new Error('gone'))
    await time.settle()
    const count = sent.length
    const beganMs = time.timers.nowMs()
    while (sent.length === count) await time.pass(10)
    waits.push(time.timers.nowMs() - beganMs)
    sent.at(-1)?.fail(new Error('gone'))
    await time.settle()
    while (sent.length === count + 1) await time.pass(10)
    sent.at(-1)?.reply('OK')
    await time.settle()
  }
  assert.deepEqual(waits, [100, 200, 100, 200])
})

test('a changed deadline holds for the next command', async () => {
  const { breaker, time, sent, replies, events, call } = await reached()
  breaker.changeDeadline(100)
  breaker.send(call('a'))
  await time.pass(99)
  assert.deepEqual(replies, [])
  sent[0]?.reply('late')
  await time.settle()
  breaker.changeDeadline(10)
  breaker.send(call('b'))
  await time.pass(11)
  assert.deepEqual([replies, events], [['late', undefined], ['away: no reply within 10 ms']])
})

test('at the end all waiting commands learn that the store is away, and no timer is left', async () => {
  const { breaker, time, replies, call } = await reached()
  breaker.send(call('a'))
  breaker.close()
  breaker.send(call('b'))
  assert.deepEqual(replies, [undefined, undefined])
  assert.equal(time.armed, 0)
})
