import assert from 'node:assert/strict'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { describe, it, type TestContext } from 'node:test'
import type { RetrySettings } from '../../config/upstreams/upstream-group.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import type { UpstreamsOptions } from '../balancing/origin.ts'
import {
  bodyOf,
  FRAGILE,
  itInBytes,
  ok,
  type ScriptedOptions,
  type ScriptedUpstream,
  scriptedUpstream,
  send,
  transport,
  until,
  upstreamsTo,
} from './scripted.test-support.ts'

const BREAKER = { ...FRAGILE, failures: 3 }
const RETRY: RetrySettings = { statuses: [502, 503, 504], budgetPercent: 100, minPerSecond: 0, attempts: 1 }

async function guarded(
  t: TestContext,
  scripts: ScriptedOptions[],
  policy: Partial<UpstreamsOptions['policy']>,
) {
  const time = { nowMs: 1000 }
  const events: string[] = []
  const scripted = await Promise.all(scripts.map((script) => scriptedUpstream(script)))
  const upstream = upstreamsTo(
    scripted.map(({ url }) => url),
    {
      clock: () => time.nowMs,
      policy: { breaker: undefined, retry: undefined, slowStartMs: 0, ...policy },
      onBreaker: (_, state) => events.push(state),
      onRetry: (outcome) => events.push(outcome),
    },
  )
  t.after(async () => {
    for (const each of scripted) await each.close().catch(() => {})
    await upstream.close()
  })
  return { scripted: scripted as [ScriptedUpstream, ...ScriptedUpstream[]], upstream, events, time }
}

const status = (code: number, body = ''): ScriptedOptions => ({
  onRequest: ({ socket }) =>
    socket.write(`HTTP/1.1 ${code} X\r\nContent-Length: ${body.length}\r\n\r\n${body}`),
})
const BROKEN_OFF: ScriptedOptions = {
  onRequest: ({ socket }) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx'),
}
const asked = (scripted: readonly ScriptedUpstream[]) => scripted.map(({ requests }) => requests.length)

describe('a circuit breaker', () => {
  it('keeps everything from a target that failed too often, and says when it will let something through', async (t) => {
    const { scripted, upstream, events, time } = await guarded(t, [status(500, 'no')], { breaker: BREAKER })
    for (let i = 0; i < 3; i++) assert.equal((await send(upstream).over).status, 500)
    time.nowMs += 2000
    const { fault } = await send(upstream, { method: 'POST' }).over
    assert.deepEqual([fault?.kind, fault?.retryAfterMs], ['unavailable', 3000])
    assert.deepEqual([asked(scripted), events], [[3], ['open']])
  })

  it('lets one request through to find out, and all others when that one succeeds', async (t) => {
    let ill = true
    const held: ScriptedOptions = {
      onRequest: ({ socket, head }) => {
        if (ill) socket.destroy()
        else if (!head.includes('/held')) socket.write(ok('well'))
      },
    }
    const { scripted, upstream, events, time } = await guarded(t, [held], { breaker: BREAKER })
    for (let i = 0; i < 3; i++) await send(upstream, { method: 'POST' }).over
    ill = false
    time.nowMs += 5000
    const probe = send(upstream, { target: '/held' })
    await until(() => scripted[0].requests.length === 4)
    assert.equal((await send(upstream).over).fault?.kind, 'unavailable')
    // Its client goes away, which says nothing about the target.
    probe.call.abort()
    assert.equal(bodyOf(await send(upstream).over), 'well')
    assert.equal(bodyOf(await send(upstream).over), 'well')
    assert.deepEqual(events, ['open', 'half-open', 'closed'])
  })

  it('counts what cannot be connected to, and takes an upgrade for a success', async (t) => {
    const switching: ScriptedOptions = {
      // HTTP/2 has no upgrades, so there it is a response like any other.
      onRequest: ({ socket }) =>
        socket.write(
          transport.http2 ? ok('') : 'HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n',
        ),
    }
    const { scripted, upstream, events, time } = await guarded(t, [switching], { breaker: BREAKER })
    const port = Number(new URL(scripted[0].url).port)
    await scripted[0].close()
    for (let i = 0; i < 3; i++) assert.equal((await send(upstream).over).fault?.kind, 'unreachable')
    assert.equal((await send(upstream).over).fault?.kind, 'unavailable')
    const back = await scriptedUpstream({ ...switching, port })
    t.after(() => back.close())
    time.nowMs += 5000
    const { socket } = await send(upstream, { upgrade: 'websocket' }).over
    socket?.destroy()
    assert.deepEqual(events, ['open', 'half-open', 'closed'])
  })

  it('counts exchanges without a whole response: a malformed one, or none in time', async (t) => {
    const nonsense: ScriptedOptions = { onRequest: ({ socket }) => socket.end('nonsense\r\n\r\n') }
    const malformed = await guarded(t, [nonsense], { breaker: FRAGILE })
    assert.ok((await send(malformed.upstream, { method: 'POST' }).over).fault)
    assert.deepEqual(malformed.events, ['open'])
    const { scripted, upstream, events, time } = await guarded(t, [{}], { breaker: FRAGILE })
    const { over } = send(upstream)
    await until(() => scripted[0].requests.length === 1)
    time.nowMs += 20_000
    assert.equal((await over).fault?.kind, 'timeout')
    assert.deepEqual(events, ['open'])
  })

  it('counts responses that break off after a good head, in a row and as a percentage', async (t) => {
    for (const settings of [{}, { failures: 0, failurePercent: 100, minRequests: 3 }]) {
      const { scripted, upstream, events } = await guarded(t, [BROKEN_OFF], {
        breaker: { ...BREAKER, ...settings },
      })
      for (let i = 0; i < 3; i++) {
        assert.equal((await send(upstream, { method: 'POST' }).over).fault?.kind, 'broken')
      }
      assert.equal((await send(upstream, { method: 'POST' }).over).fault?.kind, 'unavailable')
      assert.deepEqual([asked(scripted), events], [[3], ['open']])
    }
  })

  it('counts a response with a bad status once, though it breaks off as well', async (t) => {
    const bad: ScriptedOptions = {
      onRequest: ({ socket }) => socket.end('HTTP/1.1 503 X\r\nContent-Length: 9\r\n\r\nx'),
    }
    const { scripted, upstream, events } = await guarded(t, [bad, bad], { breaker: BREAKER })
    for (let i = 0; i < 4; i++) assert.ok((await send(upstream, { method: 'POST' }).over).fault)
    assert.deepEqual([asked(scripted), events], [[2, 2], []])
    assert.ok(upstream.targets.every(({ health }) => !health.avoided()))
  })

  it('opens again when the response to its probe breaks off', async (t) => {
    const { upstream, events, time } = await guarded(t, [BROKEN_OFF], {
      breaker: FRAGILE,
    })
    await send(upstream, { method: 'POST' }).over
    time.nowMs += 5000
    assert.equal((await send(upstream, { method: 'POST' }).over).fault?.kind, 'broken')
    assert.deepEqual(events, ['open', 'half-open', 'open'])
  })

  it('takes a response that its client breaks off for a success, once its head was good', async (t) => {
    let ill = true
    const script: ScriptedOptions = {
      onRequest: ({ socket }) => (ill ? socket.destroy() : socket.write(ok('whole').slice(0, -1))),
    }
    const { upstream, events, time } = await guarded(t, [script], { breaker: FRAGILE })
    await send(upstream, { method: 'POST' }).over
    ill = false
    time.nowMs += 5000
    const { call, received } = send(upstream)
    await until(() => received.status === 200)
    call.abort()
    assert.deepEqual(events, ['open', 'half-open', 'closed'])
  })

  it('does not wait for the end of a response that goes on for longer than the breaker was open', async (t) => {
    let ill = true
    const script: ScriptedOptions = {
      onRequest: ({ socket }) => (ill ? socket.destroy() : socket.write(ok('whole').slice(0, -1))),
    }
    const { upstream, events, time } = await guarded(t, [script, script], {
      breaker: BREAKER,
    })
    for (let i = 0; i < 6; i++) await send(upstream, { method: 'POST' }).over
    ill = false
    const sent = []
    for (let i = 0; i < 4; i++) {
      if (i % 2 === 0) time.nowMs += 5000
      const stream = send(upstream)
      await until(() => stream.received.status === 200)
      sent.push(stream)
    }
    assert.deepEqual(events, ['open', 'open', 'half-open', 'half-open', 'closed', 'closed'])
    assert.ok(upstream.targets.every(({ health }) => !health.avoided()))
    for (const { call } of sent) call.abort()
  })

  it('does not count that a response was still coming when the total of its route was over', async (t) => {
    const { scripted, upstream, events, time } = await guarded(
      t,
      [{ onRequest: ({ socket }) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n') }],
      { breaker: BREAKER },
    )
    const calls = Array.from({ length: 3 }, () => send(upstream, { totalMs: 5000, idleMs: 2000 }))
    await until(() => calls.every(({ received }) => received.status === 200))
    for (let i = 1; i <= 4; i++) {
      time.nowMs += 1000
      for (const { socket } of scripted[0].requests) socket.write('x')
      await until(() => calls.every(({ received }) => received.chunks.length === i))
    }
    time.nowMs += 1000
    for (const { over } of calls) {
      const { fault } = await over
      assert.deepEqual(fault, {
        kind: 'timeout',
        cause: 'not over within 5000 ms: the response was still coming',
        isNeutral: true,
      })
    }
    assert.deepEqual([events, upstream.targets[0]?.health.avoided()], [[], false])
  })

  it('counts the silence of a response whose total is over at the same time', async (t) => {
    const { upstream, events, time } = await guarded(
      t,
      [{ onRequest: ({ socket }) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n') }],
      { breaker: FRAGILE },
    )
    const { received, over } = send(upstream, { totalMs: 5000, idleMs: 2000 })
    await until(() => received.status === 200)
    time.nowMs += 6000
    assert.equal((await over).fault?.cause, 'no piece of the body within 2000 ms')
    assert.deepEqual(events, ['open'])
  })

  // http2/sessions.test.ts has this test for HTTP/2.
  itInBytes('does not count an upload that stops after a response head that came early', async (t) => {
    const { scripted, upstream, events, time } = await guarded(
      t,
      [
        {
          onConnection: (socket) =>
            socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx')),
        },
      ],
      { breaker: FRAGILE },
    )
    const body = new Readable({ read() {} })
    const { received, over } = send(upstream, { method: 'POST', body, totalMs: undefined, idleMs: 2000 })
    body.push('begin')
    await until(() => received.chunks.length === 1 && scripted[0].received.includes('begin'))
    time.nowMs += 2000
    assert.deepEqual((await over).fault, {
      kind: 'unsent',
      cause: 'nothing more of the request body or of the response came within 2000 ms',
    })
    assert.deepEqual([events, upstream.targets[0]?.health.avoided()], [[], false])
  })

  it('does not count that a client allowed less time than the target needs', async (t) => {
    const slow: ScriptedOptions = {}
    const { scripted, upstream, events, time } = await guarded(t, [slow, slow], { breaker: BREAKER })
    const calls = Array.from({ length: 8 }, () =>
      send(upstream, { method: 'POST', totalMs: 1e-6, isTotalOfClient: true }),
    )
    await until(() => asked(scripted).every((requests) => requests === 4))
    time.nowMs += 1
    for (const { over } of calls) assert.equal((await over).fault?.kind, 'timeout')
    const avoided = upstream.targets.map(({ health }) => health.avoided())
    assert.deepEqual([events, avoided], [[], [false, false]])
  })

  it('of one target leaves other targets alone', async (t) => {
    const { scripted, upstream, time } = await guarded(t, [status(500), status(200, 'b')], {
      breaker: BREAKER,
    })
    for (let i = 0; i < 20; i++) {
      await send(upstream, { method: 'POST' }).over
      time.nowMs += 100
    }
    assert.deepEqual(asked(scripted), [3, 17])
  })
})

describe('a target that breaks its responses off', () => {
  it('gets few requests, though it fails fast after a good head', async (t) => {
    const { scripted, upstream, time } = await guarded(t, [BROKEN_OFF, status(200, 'b')], {})
    for (let i = 0; i < 100; i++) {
      await send(upstream, { method: 'POST' }).over
      time.nowMs += 100
    }
    // Three requests, and a probe after 1, 2 and 4 s.
    assert.deepEqual(asked(scripted), [6, 94])
  })
})

describe('a retry by response', () => {
  it('goes to another target, and the client gets the better response', async (t) => {
    const { scripted, upstream, events } = await guarded(t, [status(503, 'no'), status(200, 'yes')], {
      retry: RETRY,
    })
    for (let i = 0; i < 2; i++) {
      const received = await send(upstream).over
      assert.deepEqual([received.status, bodyOf(received)], [200, 'yes'])
    }
    assert.deepEqual([asked(scripted), events], [[1, 2], ['succeeded']])
  })

  it('is one retry, though the first other target cannot be connected to', async (t) => {
    const { scripted, upstream, events } = await guarded(t, [status(200, 'yes'), status(503), status(200)], {
      retry: RETRY,
    })
    // The second target is asked first, and the third after it.
    await scripted[2]?.close()
    const received = await send(upstream).over
    assert.deepEqual([received.status, bodyOf(received), events], [200, 'yes', ['succeeded']])
    assert.deepEqual(asked(scripted), [1, 1, 0])
  })

  it('goes to the same target when there is no other, at most as often as it is told, and the last response counts', async (t) => {
    const { scripted, upstream, events } = await guarded(t, [status(502, 'no')], {
      retry: { ...RETRY, attempts: 3, minPerSecond: 5 },
    })
    const received = await send(upstream).over
    assert.deepEqual([received.status, bodyOf(received), asked(scripted)], [502, 'no', [4]])
    assert.deepEqual(events, ['failed', 'failed', 'failed'])
  })

  it('is made of nothing but a safe request without a body', async (t) => {
    const { scripted, upstream } = await guarded(t, [status(503), status(503)], { retry: RETRY })
    const body = () => Readable.from([Buffer.from('abc')])
    const calls = [
      ...['POST', 'PUT', 'DELETE', 'PATCH', 'PROPFIND'].map((method) => ({ method })),
      { method: 'GET', body: body() },
      { method: 'POST', body: body() },
      { method: 'GET', upgrade: 'websocket' },
    ]
    for (const call of calls) assert.equal((await send(upstream, call).over).status, 503)
    assert.equal(scripted[0].requests.length + (scripted[1]?.requests.length ?? 0), calls.length)
  })

  it('is not made for other statuses, nor beyond the budget', async (t) => {
    const { scripted, upstream, events } = await guarded(t, [status(500), status(500)], { retry: RETRY })
    assert.equal((await send(upstream).over).status, 500)
    assert.deepEqual([asked(scripted).sort(), events], [[0, 1], []])
    const poor = await guarded(t, [status(503), status(503)], { retry: { ...RETRY, budgetPercent: 10 } })
    for (let i = 0; i < 100; i++) assert.equal((await send(poor.upstream).over).status, 503)
    const [one = 0, other = 0] = asked(poor.scripted)
    assert.ok(one + other >= 109 && one + other <= 110, `${one + other}`)
    assert.ok(poor.events.filter((event) => event === 'denied').length >= 90)
  })

  it('is made of any request when no target can be connected to, within the budget', async (t) => {
    const { scripted, upstream, events } = await guarded(t, [status(200)], { retry: RETRY })
    await scripted[0].close()
    const received = await send(upstream, { method: 'POST' }).over
    assert.deepEqual([received.fault?.kind, events], ['unreachable', ['failed']])
  })

  it('is not made when every breaker has opened, and the response that is there is passed on', async (t) => {
    const policy = { retry: RETRY, breaker: FRAGILE }
    const { scripted, upstream } = await guarded(t, [status(503, 'no')], policy)
    assert.equal(bodyOf(await send(upstream).over), 'no')
    assert.deepEqual(asked(scripted), [1])
  })

  it('is not made after a response that ends sessions, which must not be lost', async (t) => {
    const ends: ScriptedOptions = {
      onRequest: ({ socket }) =>
        socket.write('HTTP/1.1 503 X\r\nX-Revoke-Session: s1\r\nContent-Length: 0\r\n\r\n'),
    }
    const { scripted, upstream } = await guarded(t, [ends, ends], { retry: RETRY })
    const received = await send(upstream).over
    assert.deepEqual([received.status, asked(scripted).sort()], [503, [0, 1]])
    assert.ok(received.headers.includes('s1'))
  })

  it('ends with its client, and within the total time of the exchange', async (t) => {
    const silent: ScriptedOptions = {}
    for (const end of ['client', 'time'] as const) {
      const { scripted, upstream, events, time } = await guarded(t, [silent, status(503)], { retry: RETRY })
      const { call, over } = send(upstream, { totalMs: 1000 })
      await until(() => scripted[0].requests.length === 1)
      if (end === 'client') call.abort()
      else time.nowMs += 1000
      if (end === 'time') assert.equal((await over).fault?.kind, 'timeout')
      await until(() => scripted[0].inUse() === 0)
      assert.deepEqual([asked(scripted), events], [[1, 1], ['failed']])
    }
  })

  it('gives up a response with a large body at its head', async (t) => {
    const endless: ScriptedOptions = {
      onRequest: ({ socket }) => {
        socket.write('HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\n')
        const more = () => socket.write(`10000\r\n${'x'.repeat(65_536)}\r\n`) && setImmediate(more)
        socket.on('drain', more)
        more()
      },
    }
    const { scripted, upstream } = await guarded(t, [endless, status(200, 'b')], { retry: RETRY })
    for (let i = 0; i < 2; i++) assert.equal(bodyOf(await send(upstream).over), 'b')
    await until(() => scripted[0].inUse() === 0)
  })
})

describe('a target that serves WebSockets only', () => {
  const SWITCH = 'HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n'
  const NO = 'HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n'

  itInBytes('is asked as often as other targets once it switches again', async (t) => {
    let ill = true
    const scripts = [true, false].map(
      (mayBeIll): ScriptedOptions => ({
        onRequest: ({ socket }) => socket.write(ill && mayBeIll ? NO : SWITCH),
      }),
    )
    const { scripted, upstream, time } = await guarded(t, scripts, {})
    const open = async (count: number) => {
      for (let i = 0; i < count; i++) (await send(upstream, { upgrade: 'websocket' }).over).socket?.destroy()
    }
    await open(6)
    assert.deepEqual(asked(scripted), [3, 3])
    ill = false
    await open(10)
    time.nowMs += 10_000
    await open(2)
    assert.deepEqual(asked(scripted), [4, 14])
    await open(10)
    assert.deepEqual(asked(scripted), [9, 19])
  })

  // A local socket has no TLS.
  const itWithoutTls = transport.tls === undefined ? itInBytes : () => {}
  itWithoutTls('makes a retry after a refused connection a success', async (t) => {
    const folder = temporaryDirectory(t)
    const socketPath = join(folder, 'socket')
    const events: string[] = []
    const upstream = upstreamsTo([`unix:${socketPath}`], {
      policy: { breaker: undefined, retry: RETRY, slowStartMs: 0 },
      onRetry: (outcome) => events.push(outcome),
    })
    t.after(() => upstream.close())
    const attempts = {
      began: () => false,
      // The upstream listens from the end of this call on, so that the retry connects.
      failed: () => {
        const back = scriptedUpstream({ socketPath, onRequest: ({ socket }) => socket.write(SWITCH) })
        t.after(async () => (await back).close())
      },
    }
    const { socket, fault } = await send(upstream, { upgrade: 'websocket', attempts }).over
    socket?.destroy()
    assert.deepEqual([fault, events], [undefined, ['succeeded']])
  })
})

describe('breakers and retries', () => {
  it('leave nothing behind, whatever becomes of requests', async (t) => {
    let seed = 7
    const dice = (sides: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
      return Math.floor(seed / 65_536) % sides
    }
    const moody: ScriptedOptions = {
      onRequest: ({ socket }) => {
        const mood = dice(6)
        if (mood === 0) socket.destroy()
        else if (mood === 1) socket.write('HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n')
        else if (mood === 2) socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx')
        else if (mood === 3) socket.end('nonsense\r\n\r\n')
        else socket.write(ok('fine'))
      },
    }
    const policy = {
      breaker: { ...BREAKER, failures: 2, openMs: 100, probes: 2 },
      retry: { ...RETRY, attempts: 2 },
      slowStartMs: 300,
    }
    const { upstream, events, time } = await guarded(t, [moody, moody, moody], policy)
    for (let round = 0; round < 40; round++) {
      const sent = Array.from({ length: 8 }, () => send(upstream, { method: dice(2) === 0 ? 'GET' : 'POST' }))
      const ends = sent.map(({ over, call }) => {
        if (dice(5) > 0) return over
        const aborted = Promise.withResolvers<void>()
        setImmediate(() => aborted.resolve(call.abort()))
        return aborted.promise
      })
      await Promise.all(ends)
      time.nowMs += 60
    }
    time.nowMs += 10_000
    for (const event of ['open', 'half-open', 'closed', 'succeeded', 'failed']) {
      assert.ok(events.includes(event), event)
    }
    for (const target of upstream.targets) {
      assert.equal((target as { readonly inFlight?: number }).inFlight, 0)
      assert.equal(target.breaker?.admits(), true)
    }
  })
})
