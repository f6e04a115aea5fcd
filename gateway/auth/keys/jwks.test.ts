import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { calculateJwkThumbprint, type JWK } from 'jose'
import { answerJson, freshKey, NOW_MS, serve, signingKey } from '../tokens/issuer.test-support.ts'
import { KeySet } from './jwks.ts'

const es256 = signingKey('ES256').jwk
const rs256 = signingKey('RS256').jwk
const eddsa = signingKey('EdDSA').jwk

interface Harness {
  readonly keys: KeySet
  readonly faults: string[]
  readonly time: { nowMs: number; steadyMs: number }
  document: unknown
  fetches: number
}

const HOUR_MS = 3_600_000

/** A key set whose issuer answers at once with `document`, or throws it when it is an Error. */
function keySetOf(document: unknown): Harness {
  const time = { nowMs: NOW_MS, steadyMs: 0 }
  const faults: string[] = []
  const fetch = async () => {
    harness.fetches++
    if (harness.document instanceof Error) throw harness.document
    return harness.document
  }
  const keys = new KeySet({
    uri: 'memory:',
    fetch,
    clock: () => time.nowMs,
    steadyClock: () => time.steadyMs,
    maxStaleMs: () => HOUR_MS,
    onFault: (cause) => faults.push(cause),
  })
  const harness: Harness = { keys, faults, time, document, fetches: 0 }
  return harness
}

test('every published key is found by its kid after a refresh', async () => {
  const { keys, faults } = keySetOf({ keys: [es256, rs256, eddsa] })
  assert.equal(keys.loaded, false)
  assert.equal(keys.find('ES256'), undefined)
  assert.equal(await keys.refresh(), 'refreshed')
  assert.equal(keys.loaded, true)
  assert.deepEqual(keys.find('ES256')?.algorithms, ['ES256'])
  assert.deepEqual(keys.find('RS256')?.algorithms, ['RS256'])
  assert.deepEqual(keys.find('EdDSA')?.algorithms, ['EdDSA'])
  assert.equal(keys.find('PS256'), undefined)
  assert.deepEqual(faults, [])
})

test('keys of another process are as old as they were there, and expire when they would have there', async () => {
  const one = keySetOf({ keys: [es256] })
  await one.keys.refresh()
  one.time.steadyMs += 3_500_000
  const kept = one.keys.lastGood()
  assert.deepEqual(kept, { uri: 'memory:', document: { keys: [es256] }, ageMs: 3_500_000 })
  const other = keySetOf(new Error('away'))
  other.time.steadyMs = 7_000
  other.keys.restore(kept ?? assert.fail())
  assert.ok(other.keys.find('ES256'))
  assert.equal(other.keys.ageMs, 3_500_000)
  other.time.steadyMs += 99_999
  assert.equal(await other.keys.refresh(), 'failed')
  assert.equal(other.keys.loaded, true)
  assert.deepEqual(other.keys.lastGood(), { ...kept, ageMs: 3_599_999 })
  other.time.steadyMs += 2
  other.time.nowMs += 10_000
  assert.equal(await other.keys.refresh(), 'failed')
  assert.deepEqual([other.keys.loaded, other.keys.lastGood()], [false, undefined])
})

test('the age of keys counts from the last good fetch, and is infinite before it', async () => {
  const { keys, time } = keySetOf({ keys: [es256] })
  time.steadyMs = 5000
  assert.equal(keys.ageMs, Number.POSITIVE_INFINITY)
  await keys.refresh()
  time.steadyMs = 7000
  assert.equal(keys.ageMs, 2000)
})

test('a bad key is left out and named, and the others load', async () => {
  const weak = { ...es256, kid: 'weak', crv: 'P-192' }
  const { keys, faults } = keySetOf({ keys: [weak, { kty: 'RSA' }, null, es256] })
  assert.equal(await keys.refresh(), 'refreshed')
  assert.ok(keys.find('ES256'))
  assert.equal(keys.find('weak'), undefined)
  assert.equal(faults.length, 3)
  assert.match(faults[0]!, /^key "weak" is left out: it is of a kind not accepted: kty "EC", crv "P-192"/)
  assert.match(faults[1]!, /^key number 2 is left out: it has no kid/)
  assert.match(faults[2]!, /^key number 3 is left out: it is not a JSON object/)
})

test('a key without a kid is found by its thumbprint (RFC 7638), even if it is published twice', async () => {
  const { kid: _kid, ...nameless } = es256
  const thumbprint = await calculateJwkThumbprint(es256)
  const once = keySetOf({ keys: [nameless, rs256] })
  await once.keys.refresh()
  assert.equal(once.keys.find(thumbprint)?.kid, thumbprint)
  assert.deepEqual(once.faults, [])
  const twice = keySetOf({ keys: [nameless, nameless, { ...rs256, kid: undefined }] })
  await twice.keys.refresh()
  assert.equal(twice.keys.find(thumbprint)?.kid, thumbprint)
  assert.equal(twice.keys.fitting('ES256').length, 1)
  assert.deepEqual(twice.faults, [])
})

test('the keys that fit an algorithm are those that may verify it', async () => {
  const { keys } = keySetOf({ keys: [es256, eddsa, { ...rs256, alg: undefined }, freshKey('other').jwk] })
  await keys.refresh()
  const fitting = (alg: 'ES256' | 'PS256' | 'RS256' | 'EdDSA') => keys.fitting(alg).map(({ kid }) => kid)
  assert.deepEqual(fitting('ES256'), ['ES256', 'other'])
  assert.deepEqual(fitting('EdDSA'), ['EdDSA'])
  assert.deepEqual([fitting('PS256'), fitting('RS256')], [['RS256'], ['RS256']])
})

test('keys that share a kid are told apart by use, kty and alg (FAPI 2.0 section 5.4.3)', async () => {
  const shared = [
    { ...freshKey('one').jwk, use: 'enc' },
    { ...es256, kid: 'one' },
    { ...rs256, kid: 'one', alg: 'RS512' },
    { ...rs256, kid: 'one', alg: 'PS256' },
    { ...rs256, kid: 'one', alg: 'RS256' },
  ]
  const { keys } = keySetOf({ keys: shared })
  await keys.refresh()
  for (const algorithm of ['ES256', 'PS256', 'RS256'] as const) {
    assert.deepEqual(keys.find('one', algorithm)?.algorithms, [algorithm])
    assert.equal(keys.fitting(algorithm).length, 1)
  }
  assert.equal(keys.find('one', 'EdDSA')?.kid, 'one', 'the check of the algorithm says what is wrong')
})

test('a kid that is shared by two keys for one algorithm names neither of them', async () => {
  const twin = { ...freshKey('ES256').jwk }
  const { keys, faults } = keySetOf({ keys: [es256, rs256, twin] })
  assert.equal(await keys.refresh(), 'refreshed')
  assert.equal(keys.find('ES256'), undefined)
  assert.ok(keys.find('RS256'))
  assert.deepEqual(faults, ['key "ES256" is left out: another key for ES256 has its kid'])
})

test('64 keys are taken and 65 are not', async () => {
  const many = (count: number) => ({
    keys: Array.from({ length: count }, (_, index) => ({ ...es256, kid: `key-${index}` })),
  })
  const full = keySetOf(many(64))
  assert.equal(await full.keys.refresh(), 'refreshed')
  assert.ok(full.keys.find('key-63'))
  const over = keySetOf(many(65))
  assert.equal(await over.keys.refresh(), 'failed')
  assert.match(over.faults[0]!, /65 keys, more than 64/)
})

for (const [what, document, cause] of [
  ['an outage', new Error('connection refused'), /connection refused/],
  ['no document', undefined, /not a JWK Set/],
  ['a document that is no object', 'keys', /not a JWK Set/],
  ['a document that is null', null, /not a JWK Set/],
  ['a document without keys', { error: 'maintenance' }, /not a JWK Set/],
  ['a document whose keys is no list', { keys: { ...es256 } }, /not a JWK Set/],
] as const) {
  test(`${what} is a failed refresh that keeps the last good keys`, async () => {
    const harness = keySetOf({ keys: [es256] })
    const { keys, faults, time } = harness
    await keys.refresh()
    const before = keys.find('ES256')
    harness.document = document
    time.nowMs += 10_000
    assert.equal(await keys.refresh(), 'failed')
    assert.equal(keys.find('ES256'), before)
    assert.equal(keys.loaded, true)
    assert.match(faults.at(-1)!, /^keys cannot be read, so the last good ones stay for a while: /)
    assert.match(faults.at(-1)!, cause)
  })
}

test('the fault of a first fetch speaks of no earlier keys', async () => {
  const { keys, faults } = keySetOf(new Error('the response has status 403, not 200'))
  assert.equal(await keys.refresh(), 'failed')
  assert.deepEqual(faults, [
    'keys cannot be read, so requests that need them get 503: the response has status 403, not 200',
  ])
})

for (const [what, keys] of [
  ['an empty key set', []],
  ['a key set with no usable key', [{ ...es256, use: 'enc' }]],
] as const) {
  test(`${what} ends the trust in the keys before it, and says so`, async () => {
    const harness = keySetOf({ keys: [es256] })
    await harness.keys.refresh()
    harness.document = { keys }
    harness.time.nowMs += 10_000
    assert.equal(await harness.keys.refresh(), 'refreshed')
    assert.equal(harness.keys.find('ES256'), undefined)
    assert.equal(harness.keys.loaded, false)
    assert.match(harness.faults.at(-1)!, /no usable key is published/)
    harness.document = { keys: [es256] }
    harness.time.nowMs += 10_000
    await harness.keys.refresh()
    assert.ok(harness.keys.find('ES256'))
  })
}

test('keys that cannot be fetched again are believed for the stated time by the steady clock, then no more', async () => {
  const harness = keySetOf({ keys: [es256] })
  const { keys, time, faults } = harness
  await keys.refresh()
  harness.document = new Error('connection refused')
  const later = async (ms: number) => {
    time.nowMs += 10_000
    time.steadyMs += ms
    assert.equal(await keys.refresh(), 'failed')
    return keys.loaded
  }
  time.nowMs += 400 * 24 * HOUR_MS
  assert.equal(await later(HOUR_MS), true, 'the wall clock jumped')
  assert.equal(await later(1), false)
  assert.equal(keys.find('ES256'), undefined)
  assert.match(faults.at(-1)!, /too old: requests that need them are refused/)
  assert.equal(await later(HOUR_MS), false)
  assert.equal(faults.filter((fault) => fault.includes('too old')).length, 1, 'told once')
  harness.document = { keys: [es256] }
  time.nowMs += 10_000
  assert.equal(await keys.refresh(), 'refreshed')
  assert.ok(keys.find('ES256'))
  harness.document = new Error('again')
  assert.equal(await later(HOUR_MS), true)
})

test('a key that is no longer published is gone with the next successful refresh', async () => {
  const harness = keySetOf({ keys: [es256, rs256] })
  await harness.keys.refresh()
  harness.document = { keys: [rs256] }
  harness.time.nowMs += 10_000
  assert.equal(await harness.keys.refresh(), 'refreshed')
  assert.equal(harness.keys.find('ES256'), undefined)
  assert.ok(harness.keys.find('RS256'))
})

test('an unchanged key stays the same object and a changed one does not', async () => {
  const harness = keySetOf({ keys: [es256, rs256] })
  const { keys, time } = harness
  await keys.refresh()
  const [before, beforeRsa] = [keys.find('ES256'), keys.find('RS256')]
  harness.document = { keys: [{ ...es256 }, { ...freshKey('RS256').jwk }] }
  time.nowMs += 10_000
  await keys.refresh()
  assert.equal(keys.find('ES256'), before)
  assert.notEqual(keys.find('RS256'), beforeRsa)
})

test('a storm of unknown kids costs one fetch in 10 s', async () => {
  const harness = keySetOf({ keys: [es256] })
  const { keys, time } = harness
  for (let millisecond = 0; millisecond < 30_000; millisecond += 50) {
    await keys.refresh()
    time.nowMs += 50
  }
  assert.equal(harness.fetches, 3)
})

test('the cooling time counts from the fetch that an unknown kid caused, also a failed one', async () => {
  const harness = keySetOf(new Error('down'))
  const { keys, time } = harness
  assert.equal(await keys.refresh(), 'failed')
  time.nowMs += 9_999
  assert.equal(await keys.refresh(), 'cooling')
  time.nowMs += 1
  harness.document = { keys: [es256] }
  assert.equal(await keys.refresh(), 'refreshed')
})

test('a clock that was set back does not keep the key set cooling', async () => {
  const harness = keySetOf({ keys: [es256] })
  await harness.keys.refresh()
  harness.time.nowMs -= 3_600_000
  assert.equal(await harness.keys.refresh(), 'refreshed')
})

test('refreshes at the same time share one fetch', async () => {
  const answer = Promise.withResolvers<unknown>()
  let fetches = 0
  const keys = new KeySet({
    uri: 'memory:',
    fetch: () => {
      fetches++
      return answer.promise
    },
    clock: () => NOW_MS,
    onFault: () => undefined,
  })
  const refreshes = [keys.refresh(), keys.refresh(), keys.refresh()]
  answer.resolve({ keys: [es256] })
  assert.deepEqual(await Promise.all(refreshes), ['refreshed', 'refreshed', 'refreshed'])
  assert.equal(fetches, 1)
})

test('a fault that lasts is reported once, and again when it comes back', async () => {
  const harness = keySetOf(new Error('down'))
  const { keys, faults, time } = harness
  const refresh = (document: unknown) => {
    harness.document = document
    time.nowMs += 10_000
    return keys.refresh()
  }
  await refresh(new Error('down'))
  await refresh(new Error('down'))
  assert.equal(faults.length, 1)
  await refresh({ keys: [es256] })
  assert.equal(harness.keys.fault, '')
  await refresh(new Error('down'))
  assert.equal(faults.length, 2)
  assert.equal(harness.keys.fault, 'keys cannot be read, so the last good ones stay for a while: down')
})

test('a fetch that fails is reported again each 5 minutes, a key that is left out is not', async () => {
  for (const [document, reports] of [
    [new Error('down'), 3],
    [{ keys: [es256, null] }, 1],
  ] as const) {
    const { keys, faults, time } = keySetOf(document)
    for (let seconds = 0; seconds <= 600; seconds += 10) {
      await keys.refresh()
      time.nowMs += 10_000
      time.steadyMs += 10_000
    }
    assert.equal(faults.length, reports, faults.join())
  }
})

/** Mocked timers; `pass` also waits until what they started has ended. */
function handTimers(t: TestContext): { pass: (ms: number) => Promise<void> } {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve))
  return {
    async pass(ms) {
      t.mock.timers.tick(ms)
      await turn()
    },
  }
}

test('the first load is tried at once and again after 250 ms, doubling to 10 s, until it succeeds', async (t) => {
  const { pass } = handTimers(t)
  const harness = keySetOf(new Error('not up yet'))
  harness.keys.start()
  t.after(() => harness.keys.stop())
  await pass(0)
  assert.equal(harness.fetches, 1)
  let expected = 1
  for (const waitMs of [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]) {
    await pass(waitMs - 1)
    assert.equal(harness.fetches, expected, `before ${waitMs} ms`)
    await pass(1)
    assert.equal(harness.fetches, ++expected, `after ${waitMs} ms`)
  }
  harness.document = { keys: [es256] }
  await pass(10_000)
  assert.ok(harness.keys.loaded)
})

test('a loaded key set is refreshed each 5 minutes, and soon again when that fails', async (t) => {
  const { pass } = handTimers(t)
  const harness = keySetOf({ keys: [es256] })
  harness.keys.start()
  t.after(() => harness.keys.stop())
  await pass(0)
  await pass(299_999)
  assert.equal(harness.fetches, 1)
  harness.document = new Error('down')
  await pass(1)
  assert.equal(harness.fetches, 2)
  harness.document = { keys: [rs256] }
  await pass(250)
  assert.equal(harness.fetches, 3)
  assert.ok(harness.keys.find('RS256'))
  await pass(299_999)
  assert.equal(harness.fetches, 3)
  await pass(1)
  assert.equal(harness.fetches, 4)
})

test('a background load does not use up the fetch that an unknown kid may cause', async (t) => {
  const { pass } = handTimers(t)
  const harness = keySetOf({ keys: [es256] })
  harness.keys.start()
  t.after(() => harness.keys.stop())
  await pass(0)
  harness.document = { keys: [es256, rs256] }
  assert.equal(await harness.keys.refresh(), 'refreshed')
  assert.ok(harness.keys.find('RS256'))
})

test('the first load joins a fetch that an unknown kid has caused', async (t) => {
  const { pass } = handTimers(t)
  const harness = keySetOf({ keys: [es256] })
  const refreshing = harness.keys.refresh()
  harness.keys.start()
  t.after(() => harness.keys.stop())
  await pass(0)
  assert.equal(await refreshing, 'refreshed')
  assert.equal(harness.fetches, 1)
})

test('a key set that is stopped while it loads fetches no more', async (t) => {
  const { pass } = handTimers(t)
  const harness = keySetOf({ keys: [es256] })
  harness.keys.start()
  harness.keys.stop()
  await pass(0)
  await pass(3_600_000)
  assert.equal(harness.fetches, 1)
})

test('waiting for the next refresh keeps no process alive', async (t) => {
  const { keys } = keySetOf({ keys: [es256] })
  const { setTimeout } = globalThis
  const timers: NodeJS.Timeout[] = []
  t.mock.method(globalThis, 'setTimeout', (run: () => void, ms: number) => {
    const timer = setTimeout(run, ms)
    timers.push(timer)
    return timer
  })
  keys.start()
  t.after(() => keys.stop())
  await new Promise<void>((resolve) => setImmediate(resolve))
  assert.ok(keys.loaded)
  assert.deepEqual(
    timers.map((timer) => timer.hasRef()),
    [false],
  )
})

test('a stopped key set fetches no more and keeps its keys', async (t) => {
  const { pass } = handTimers(t)
  const harness = keySetOf({ keys: [es256] })
  harness.keys.start()
  await pass(0)
  harness.keys.stop()
  await pass(3_600_000)
  assert.equal(harness.fetches, 1)
  assert.ok(harness.keys.find('ES256'))
})

test('stopping gives up a fetch under way, without a fault', async () => {
  const faults: string[] = []
  const keys = new KeySet({
    uri: 'memory:',
    clock: Date.now,
    onFault: (cause) => faults.push(cause),
    fetch: (_uri, signal) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
      }),
  })
  keys.start()
  const joined = keys.refresh()
  keys.stop()
  assert.equal(await joined, 'failed')
  assert.deepEqual(faults, [])
})

test('an issuer over HTTP rotates its keys, breaks in every way, and comes back', async (t) => {
  const time = { nowMs: NOW_MS }
  const faults: string[] = []
  const [first, second] = [freshKey('first').jwk, freshKey('second').jwk]
  const source = await serve(t, answerJson({ keys: [first] }))
  const keys = new KeySet({
    uri: source.uri,
    clock: () => time.nowMs,
    onFault: (cause) => faults.push(cause),
  })
  const refresh = () => {
    time.nowMs += 10_000
    return keys.refresh()
  }
  assert.equal(await refresh(), 'refreshed')
  source.answer = answerJson({ keys: [first, second] })
  assert.equal(await refresh(), 'refreshed')
  assert.ok(keys.find('first') && keys.find('second'))
  source.answer = answerJson({ keys: [second] } satisfies { keys: JWK[] })
  assert.equal(await refresh(), 'refreshed')
  assert.equal(keys.find('first'), undefined)
  const outages: (typeof source.answer)[] = [
    (_request, response) => response.writeHead(500).end(),
    (_request, response) => response.writeHead(302, { location: source.uri }).end(),
    (_request, response) => response.end('not JSON'),
    (_request, response) => response.end('x'.repeat(300_000)),
    (request) => request.socket.destroy(),
  ]
  for (const outage of outages) {
    source.answer = outage
    assert.equal(await refresh(), 'failed')
    assert.ok(keys.find('second'))
  }
  assert.equal(faults.length, outages.length)
  source.answer = answerJson({ keys: [first] })
  assert.equal(await refresh(), 'refreshed')
  assert.ok(keys.find('first'))
})

test('a retired key set is no longer fetched in the background, but still for a request, and can be started again', async (t) => {
  const { pass } = handTimers(t)
  const harness = keySetOf({ keys: [es256] })
  harness.keys.start()
  t.after(() => harness.keys.stop())
  await pass(0)
  harness.keys.start()
  harness.keys.retire()
  await pass(600_000)
  assert.equal(harness.fetches, 1)
  harness.time.nowMs += 10_000
  assert.equal(await harness.keys.refresh(), 'refreshed')
  harness.keys.start()
  await pass(0)
  await pass(300_000)
  assert.equal(harness.fetches, 4)
})

test('a key set that is retired and started while it loads has one loop', async (t) => {
  const { pass } = handTimers(t)
  const harness = keySetOf({ keys: [es256] })
  harness.keys.start()
  harness.keys.retire()
  harness.keys.start()
  t.after(() => harness.keys.stop())
  await pass(0)
  const { fetches } = harness
  await pass(300_000)
  assert.equal(harness.fetches, fetches + 1)
})
