import assert from 'node:assert/strict'
import { it, mock } from 'node:test'
import type { Exchange } from '../../exchange.ts'
import { Limiter } from '../../limits/limiter.ts'
import type { ConfigReport } from '../config-in-force.ts'
import { createMetrics } from '../metrics.ts'
import { ConsoleFeed, MAX_LISTENERS } from './console-feed.ts'
import type { History, Moment } from './wire.ts'

const CONFIG: ConfigReport = { version: '1.2.3', hash: 'h', parts: {} }

/** A feed with a clock of its own, whose timers fire when the test says. */
function feedWith(readiness: () => string | undefined = () => undefined, config = CONFIG) {
  mock.timers.enable({ apis: ['setInterval'] })
  const metrics = createMetrics({ version: '1' })
  const time = { nowMs: 1_000_000 }
  let looks = 0
  const feed = new ConsoleFeed({
    metrics,
    readiness,
    degradation: () => undefined,
    config: () => config,
    limiter: new Limiter({ clock: () => time.nowMs }),
    clock: () => {
      looks++
      return time.nowMs
    },
  })
  const tick = (ms: number) => {
    time.nowMs += ms
    mock.timers.tick(ms)
  }
  const request = () => {
    metrics.closed({ method: 'GET', route: { path: '/a' } } as unknown as Exchange, 200, 0.01)
  }
  const end = () => {
    feed.stop()
    mock.timers.reset()
  }
  const set = (byMs: number) => {
    time.nowMs += byMs
  }
  return { feed, tick, set, request, metrics, looks: () => looks, end }
}

function listener(takes = () => true) {
  const events: string[] = []
  let ended = false
  const end = () => {
    ended = true
  }
  const receive = (event: string) => {
    events.push(event)
    return takes()
  }
  return { receive, end, events, isEnded: () => ended }
}

const dataOf = <T>(event: string | undefined): T =>
  JSON.parse(/^data: (.*)$/m.exec(event ?? '')?.[1] ?? '') as T

it('shows a new console what came before', () => {
  const { feed, tick, request, end } = feedWith()
  feed.start()
  tick(5000)
  for (let i = 0; i < 10; i++) request()
  tick(5000)
  tick(5000)
  const console = listener()
  feed.add(console)
  const history = dataOf<History>(console.events[0])
  assert.deepEqual(
    history.map(({ ok }) => ok),
    [2, 0],
  )
  end()
})

it('begins anew when the clock is set back, because a plot goes forward only', () => {
  const { feed, tick, set, end } = feedWith()
  feed.start()
  for (let i = 0; i < 4; i++) tick(5000)
  set(-3_600_000)
  for (let i = 0; i < 3; i++) tick(5000)
  const console = listener()
  feed.add(console)
  const history = dataOf<History>(console.events[0])
  assert.equal(history.length, 2)
  assert.ok(history[0] !== undefined && history[1] !== undefined && history[0].t < history[1].t)
  end()
})

it('keeps a quarter of an hour, and no more', () => {
  const { feed, tick, end } = feedWith()
  feed.start()
  for (let i = 0; i < 200; i++) tick(5000)
  const console = listener()
  feed.add(console)
  assert.equal(dataOf<History>(console.events[0]).length, 180)
  end()
})

it('tells each second what happens, computed once for all consoles, and only while one is open', () => {
  const { feed, tick, request, looks, end } = feedWith()
  feed.start()
  tick(5000)
  const consoles = [listener(), listener()] as const
  const forget = consoles.map((one) => feed.add(one))
  tick(0)
  const before = looks()
  for (let i = 0; i < 5; i++) request()
  tick(1000)
  assert.equal(looks(), before + 1)
  const [one, other] = consoles.map(({ events }) => events.at(-1))
  assert.equal(one, other)
  const { point, state } = dataOf<Moment>(one)
  assert.equal(point.ok, 5)
  assert.deepEqual([state.version, state.statuses[0]?.name, state.statuses[0]?.total], ['1.2.3', '200', 5])
  for (const stop of forget) stop()
  const closed = looks()
  tick(4000)
  assert.equal(looks(), closed)
  tick(1000)
  assert.equal(looks(), closed + 1)
  end()
})

it('drops a console that takes nothing more, and goes on with the others', () => {
  const { feed, tick, end } = feedWith()
  feed.start()
  let takes = true
  const stalled = listener(() => takes)
  const good = listener()
  feed.add(stalled)
  feed.add(good)
  takes = false
  tick(1000)
  tick(1000)
  const seen = stalled.events.length
  tick(1000)
  assert.deepEqual([stalled.isEnded(), stalled.events.length], [true, seen])
  assert.ok(!good.isEnded() && good.events.length > seen)
  end()
  assert.ok(good.isEnded())
})

it('says that it is full, and has room again', () => {
  const { feed, end } = feedWith()
  const forget = Array.from({ length: MAX_LISTENERS }, () => feed.add(listener()))
  assert.ok(feed.isFull)
  forget[0]?.()
  assert.ok(!feed.isFull)
  end()
})

it('tells why it cannot read the state, and tries again', () => {
  let fails = true
  const { feed, tick, end } = feedWith(() => {
    if (fails) throw new Error('no numbers')
    return undefined
  })
  feed.start()
  const console = listener()
  feed.add(console)
  tick(1000)
  assert.deepEqual(dataOf(console.events.at(-1)), { reason: 'Error: no numbers' })
  fails = false
  tick(1000)
  // Everything has a value, even without metrics.
  const { state } = dataOf<Moment>(console.events.at(-1))
  assert.deepEqual(
    [state.routes.rows, state.upstreams, state.audit.pending, state.sharedStore],
    [[], [], 0, undefined],
  )
  end()
})

it('tells how far seals and witnesses are, where there are any', () => {
  const { feed, tick, metrics, end } = feedWith()
  const console = listener()
  feed.add(console)
  tick(1000)
  const before = dataOf<Moment>(console.events.at(-1)).state.audit
  assert.deepEqual(
    [before.seals, before.witnesses, before.stamps, before.unshipped],
    [undefined, undefined, undefined, 0],
  )
  metrics.gateway_audit_seal_lag_seconds.set(3)
  metrics.gateway_audit_tree_size.set(100)
  metrics.gateway_audit_last_seal_timestamp_seconds.set(5)
  metrics.gateway_audit_witness_lag_seconds.set(0)
  metrics.gateway_audit_witness_interval_seconds.set(60)
  metrics.gateway_audit_stamp_lag_seconds.set(0)
  metrics.gateway_audit_stamp_interval_seconds.set(3600)
  metrics.gateway_audit_unshipped_segments.set(2)
  tick(1000)
  const { seals, witnesses, stamps, unshipped } = dataOf<Moment>(console.events.at(-1)).state.audit
  assert.deepEqual(seals, { records: 100, lastAtSeconds: 5, lagSeconds: 3, gaps: 0 })
  assert.deepEqual(witnesses, { lagSeconds: 0, everySeconds: 60 })
  assert.deepEqual(stamps, { lagSeconds: 0, everySeconds: 3600 })
  assert.equal(unshipped, 2)
  end()
})

it('tells the upstreams of each group, the default group first, and an upstream of two groups in both', () => {
  const upstreams = { pay: { targets: ['http://a', 'http://b/'] }, unused: { targets: ['http://c'] } }
  const gateway = {
    ...{ file: 'gateway.json', hash: 'g', sinceMs: 0, lastReload: undefined },
    settings: { upstream: ['http://a'], upstreams },
    rows: [{ upstream: 'pay' }, { upstream: 'default' }],
  }
  const { feed, tick, metrics, end } = feedWith(undefined, { ...CONFIG, parts: { gateway } })
  metrics.gateway_upstream_healthy.set(0, 'http://a')
  metrics.gateway_upstream_healthy.set(1, 'http://b')
  metrics.gateway_upstream_breaker_state.set(2, 'http://b')
  const console = listener()
  feed.add(console)
  const attempts = metrics.gateway_upstream_attempts_total
  for (const outcome of ['answered', 'answered', '5xx', 'failed']) attempts.count('http://b', outcome)
  tick(1000)
  assert.deepEqual(
    dataOf<Moment>(console.events.at(-1)).state.upstreams.map(
      ({ group, upstream, healthy, breaker, errorShare }) => [
        ...[group, upstream, healthy, breaker, errorShare],
      ],
    ),
    [
      ['default', 'http://a', false, undefined, 0],
      ['pay', 'http://a', false, undefined, 0],
      ['pay', 'http://b', true, 'open', 0.5],
    ],
  )
  end()
})
