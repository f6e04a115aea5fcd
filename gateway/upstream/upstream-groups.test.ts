import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import type { UpstreamGroup } from '../config/upstreams/upstream-group.ts'
import {
  bodyOf,
  FRAGILE,
  ok,
  type ScriptedOptions,
  scriptedUpstream,
  send,
  until,
} from './contract/scripted.test-support.ts'
import { type GroupsOptions, UpstreamGroups } from './upstream-groups.ts'

const HEALTH_CHECK = {
  path: '/healthz',
  host: undefined,
  intervalMs: 100,
  timeoutMs: 60_000,
  healthyAfter: 1,
  unhealthyAfter: 1,
  statuses: undefined,
}
const BREAKER = { ...FRAGILE, openMs: 3_600_000 }

const group = (
  name: string,
  targets: readonly string[],
  policy: Partial<UpstreamGroup> = {},
): UpstreamGroup => ({
  name,
  targets,
  slowStartMs: 0,
  ...policy,
})

const named = (name: string): ScriptedOptions => ({
  onRequest: ({ socket, head }) =>
    socket.write(head.includes('/fail') ? 'HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n' : ok(name)),
})

async function start(t: TestContext, names: readonly string[]) {
  const scripted = await Promise.all(names.map((name) => scriptedUpstream(named(name))))
  const events: string[] = []
  let planned: (() => void)[] = []
  const options = (groups: readonly UpstreamGroup[]): GroupsOptions => ({
    groups,
    tls: {},
    connectMs: 60_000,
    headersMs: 60_000,
    maxConnections: 16,
    clock: () => performance.now(),
    upstreamSecret: undefined,
    timers: {
      after: (_, run) => {
        planned.push(run)
        return () => {
          planned = planned.filter((other) => other !== run)
        }
      },
      random: () => 0,
    },
    observer: {
      onHealth: (name, _, healthy) => events.push(`${name} ${healthy}`),
      onCheck: (name, _, { isUp }) => events.push(`${name} check ${isUp}`),
      onBreaker: (name, _, state) => events.push(`${name} ${state}`),
      onRetry: (name, outcome) => events.push(`${name} ${outcome}`),
    },
  })
  const open: UpstreamGroups[] = []
  const make = (groups: readonly UpstreamGroup[], before?: UpstreamGroups) => {
    const made = new UpstreamGroups(options(groups), before)
    open.push(made)
    return made
  }
  t.after(async () => {
    for (const each of scripted) await each.close()
    for (const each of open) await each.close()
  })
  const urls = scripted.map(({ url }) => url)
  return { scripted, urls, events, make, planned: () => planned }
}

const ask = async (groups: UpstreamGroups, name: string, target = '/') =>
  bodyOf(await send(groups.of(name), { target, method: 'POST' }).over)

describe('upstream groups', () => {
  it('are asked by name, and the failures of one do nothing to another with the same target', async (t) => {
    const { urls, make } = await start(t, ['a', 'b'])
    const [a = '', b = ''] = urls
    const groups = make([group('x', [a]), group('y', [b]), group('z', [a], { breaker: BREAKER })])
    assert.deepEqual([await ask(groups, 'x'), await ask(groups, 'y')], ['a', 'b'])
    await ask(groups, 'z', '/fail')
    assert.equal((await send(groups.of('z')).over).fault?.kind, 'unavailable')
    assert.equal(await ask(groups, 'x'), 'a')
    assert.throws(() => groups.of('toString'), /no upstream group/)
    assert.deepEqual(
      groups.targets.map(({ group: name, url, breaker }) => [name, url, breaker?.state]),
      [
        ['x', a, undefined],
        ['y', b, undefined],
        ['z', a, 'open'],
      ],
    )
  })

  it('keep connections, health and breakers of what stays when they hand over, and close the rest', async (t) => {
    const { scripted, urls, events, make } = await start(t, ['a', 'b', 'c'])
    const [a = '', b = '', c = ''] = urls
    const before = make([group('x', [a, b], { breaker: BREAKER }), group('gone', [c])])
    for (let i = 0; i < 2; i++) await ask(before, 'x')
    await ask(before, 'gone')
    await ask(before, 'x', '/fail')
    const [ill] = before.targets.filter(({ breaker }) => breaker?.state === 'open')
    assert.deepEqual(events, ['x open'])
    const after = make([group('x', [a, b, c], { breaker: structuredClone(BREAKER) })], before)
    before.handOver(after)
    await until(() => scripted[2]?.open.size === 0)
    for (let i = 0; i < 4; i++) await ask(after, 'x')
    assert.deepEqual(after.targets.find(({ url }) => url === ill?.url)?.breaker?.state, 'open')
    assert.deepEqual(
      scripted.map(({ connections }) => connections),
      [1, 1, 2],
    )
    // A request that began before the edit ends where it would have ended.
    assert.equal(await ask(before, 'gone'), 'c')
  })

  it('check what stays as before, stop checks of what goes, and begin checks of what is new', async (t) => {
    const { scripted, urls, events, make, planned } = await start(t, ['a', 'b', 'c'])
    const [a = '', b = '', c = ''] = urls
    const checks = { healthCheck: HEALTH_CHECK }
    const before = make([group('x', [a, b], checks)])
    before.start()
    assert.equal(planned().length, 2)
    await scripted[0]?.close()
    for (const run of planned().splice(0)) run()
    await until(() => events.length === 2 && planned().length === 2)
    assert.deepEqual(events, ['x false', 'x check false'])
    const after = make([group('x', [a, c], { healthCheck: structuredClone(HEALTH_CHECK) })], before)
    before.handOver(after)
    assert.equal(planned().length, 2)
    assert.deepEqual(
      after.targets.map(({ health }) => health.isHealthy),
      [false, true],
    )
    // Without checks nothing says any more that it is down.
    const unchecked = make([group('x', [a, c])], after)
    after.handOver(unchecked)
    assert.equal(planned().length, 0)
    assert.deepEqual(
      unchecked.targets.map(({ health }) => health.isHealthy),
      [true, true],
    )
  })
})
