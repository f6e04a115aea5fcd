import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FRAGILE } from '../contract/scripted.test-support.ts'
import { parseAddress } from '../upstream-address.ts'
import { Choice } from './choice.ts'
import { NO_PROBE } from './circuit-breaker.ts'
import { createOrigins, type Origin, type UpstreamsOptions } from './origin.ts'

function targets(count: number, policy: UpstreamsOptions['policy'] = undefined) {
  const time = { nowMs: 1_000_000 }
  const addresses = ['http://a', 'http://b', 'http://c'].slice(0, count).map(parseAddress)
  const options: UpstreamsOptions = {
    urls: [],
    connectMs: 1,
    headersMs: 1,
    maxConnections: 1,
    clock: () => time.nowMs,
    onHealth: () => {},
    ...(policy && { policy }),
  }
  const origins = createOrigins(addresses, options, { known: undefined, createPool: () => undefined })
  return { time, origins, choice: new Choice(origins), addresses, options }
}

/** How often each is chosen. */
function shares(choice: Choice<Origin>, times: number): Record<string, number> {
  const counts: Record<string, number> = {}
  for (let i = 0; i < times; i++) {
    const url = choice.next([])?.url ?? 'none'
    counts[url] = (counts[url] ?? 0) + 1
  }
  return counts
}

describe('a target that has recovered', () => {
  const SLOW = { breaker: undefined, retry: undefined, slowStartMs: 10_000 }

  it('gets a tenth of its share at first, then more, and all of it in the end', () => {
    const { choice, origins, time } = targets(2, SLOW)
    assert.deepEqual(shares(choice, 100), { 'http://a': 50, 'http://b': 50 })
    origins[0]?.health.connectFailed()
    origins[0]?.health.connected()
    const at = (ms: number) => {
      time.nowMs += ms
      return shares(choice, 200)['http://a'] ?? 0
    }
    const [first, half, all] = [at(0), at(5000), at(5000)]
    assert.ok(first === 9 || first === 10, `${first}`)
    assert.deepEqual([half, all], [50, 100])
  })

  it("has a tenth of the others' requests in flight at first, and one at least", () => {
    const { choice, origins } = targets(3, SLOW)
    const [recovered, ...others] = origins as [Origin, Origin, Origin]
    recovered.health.recovered()
    for (let i = 0; i < 400; i++) {
      const chosen = choice.next([])
      if (chosen !== undefined) chosen.inFlight++
    }
    const [least = 0, most = 0] = others.map(({ inFlight }) => inFlight).sort()
    assert.ok(
      most - least <= 2 && Math.abs(recovered.inFlight - most / 10) <= 1,
      `${recovered.inFlight} ${most}`,
    )
  })

  it('gets everything when there is no other', () => {
    const { choice, origins } = targets(2, SLOW)
    origins[0]?.health.recovered()
    for (let i = 0; i < 20; i++) assert.equal(choice.next(origins.slice(1))?.url, 'http://a')
  })

  it('gets its share at once without a slow start', () => {
    const { choice, origins } = targets(2)
    origins[0]?.health.recovered()
    assert.deepEqual(shares(choice, 100), { 'http://a': 50, 'http://b': 50 })
  })

  it('has also recovered when it is new beside others, or its checks pass again, or its breaker closes', () => {
    const policy = { ...SLOW, breaker: FRAGILE }
    const { origins, addresses, options, time } = targets(2, policy)
    const sources = { known: origins, createPool: () => undefined }
    const [, , third] = createOrigins([...addresses, parseAddress('http://c')], options, sources)
    assert.equal(third?.health.recoveredAtMs, time.nowMs)
    const [one, other] = origins as [Origin, Origin]
    one.health.checked(false)
    time.nowMs += 7
    one.health.checked(true)
    assert.equal(one.health.recoveredAtMs, time.nowMs)
    other.breaker?.failed(NO_PROBE)
    time.nowMs += 5000
    other.breaker?.succeeded(200, other.breaker.begin())
    assert.equal(other.health.recoveredAtMs, time.nowMs)
  })
})

describe('a target that its health checks find down', () => {
  it('gets nothing while another is up, and its share when all are down', () => {
    const { choice, origins } = targets(3)
    origins[0]?.health.checked(false)
    assert.deepEqual(Object.keys(shares(choice, 99)).sort(), ['http://b', 'http://c'])
    for (const { health } of origins) health.checked(false)
    assert.deepEqual(Object.keys(shares(choice, 99)).length, 3)
  })

  it('is preferred to one that cannot be connected to', () => {
    const { choice, origins } = targets(2)
    origins[0]?.health.checked(false)
    origins[1]?.health.connectFailed()
    assert.deepEqual(shares(choice, 10), { 'http://a': 10 })
  })
})

describe('a target whose circuit breaker is open', () => {
  const POLICY = { breaker: FRAGILE, retry: undefined, slowStartMs: 0 }

  it('gets nothing, also when it is the only one, and the wait ends when the first breaker admits', () => {
    const { choice, origins, time } = targets(2, POLICY)
    origins[0]?.breaker?.failed(NO_PROBE)
    assert.deepEqual([shares(choice, 10), choice.waitMs], [{ 'http://b': 10 }, undefined])
    time.nowMs += 1000
    origins[1]?.breaker?.failed(NO_PROBE)
    assert.deepEqual([choice.next([]), choice.waitMs, choice.hasAny([])], [undefined, 4000, false])
    const single = targets(1, POLICY)
    single.origins[0]?.breaker?.failed(NO_PROBE)
    assert.equal(single.choice.next([]), undefined)
  })

  it('keeps connections and health in an edit, and its breaker too unless the edit changes the policy', () => {
    const { origins, addresses, options } = targets(2, POLICY)
    origins[0]?.breaker?.failed(NO_PROBE)
    const sources = { known: origins, createPool: () => undefined }
    const same = createOrigins(addresses, { ...options, policy: structuredClone(POLICY) }, sources)
    assert.equal(same[0], origins[0])
    const policy = { ...POLICY, breaker: { ...FRAGILE, openMs: 1 } }
    const [other] = createOrigins(addresses, { ...options, policy }, sources)
    assert.equal(other?.health, origins[0]?.health)
    assert.equal(other?.breaker?.state, 'closed')
  })
})
