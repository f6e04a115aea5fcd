import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { describe, it, type TestContext } from 'node:test'
import { Deadlines } from '../../edge/syntax/deadlines.ts'
import { itInBytes, ok, pair, type ScriptedOptions, send, until } from './scripted.test-support.ts'

const QUIET = { idleMs: 10_000, totalMs: undefined }
const HEAD = 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n'

/** An upstream with a clock that the test sets. It has 30 s for the head, and 10 s of silence if `QUIET` is asked. */
async function timed(t: TestContext, script: ScriptedOptions) {
  const time = { nowMs: 1000 }
  return { ...(await pair(t, script, { headersMs: 30_000, clock: () => time.nowMs })), time }
}

describe('the time of an exchange', () => {
  it('up to the head runs from the end of the request, and ends neither early nor late', async (t) => {
    const { scripted, upstream, time } = await timed(t, {})
    const probe = send(upstream, { method: 'POST', totalMs: 29_999 })
    const sent = send(upstream, { method: 'POST' })
    await until(() => scripted.requests.length === 2)
    time.nowMs += 29_999
    assert.match((await probe.over).fault!.cause, /29999 ms/)
    assert.equal(sent.received.fault, undefined)
    time.nowMs += 1
    const received = await sent.over
    assert.deepEqual(received.fault, { kind: 'timeout', cause: 'no head within 30000 ms' })
    await until(() => scripted.inUse() === 0)
  })

  it('up to the head does not run while the request is being sent', async (t) => {
    const { scripted, upstream, time } = await timed(t, {})
    const body = new Readable({ read() {} })
    const sent = send(upstream, { method: 'POST', body, ...QUIET })
    body.push('abc')
    await until(() => scripted.received.includes('abc'))
    time.nowMs += 100_000
    await send(upstream, { totalMs: 0 }).over
    assert.equal(sent.received.fault, undefined)
    body.push(null)
    await until(() => scripted.requests.some(({ head }) => head.startsWith('POST')))
    time.nowMs += 30_000
    assert.equal((await sent.over).fault?.kind, 'timeout')
  })

  itInBytes('for the request body begins when the upstream takes nothing more of it', async (t) => {
    let reading: Socket | undefined
    const { upstream, time } = await timed(t, {
      onConnection: (socket) => {
        reading = socket.pause()
      },
    })
    const chunk = Buffer.alloc(64 * 1024)
    let produced = 0
    const body = new Readable({
      read() {
        produced += chunk.length
        this.push(chunk)
      },
    })
    const sent = send(upstream, { method: 'POST', body, ...QUIET })
    const calm = async () => {
      for (let before = -1; produced !== before; ) {
        before = produced
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
    }
    await until(() => reading !== undefined)
    await calm()
    time.nowMs += 9000
    const taken = produced
    reading!.once('data', () => reading!.pause())
    reading!.resume()
    // What the kernels hold has to go before more is taken.
    while (produced === taken) {
      reading!.resume()
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    reading!.pause()
    await calm()
    time.nowMs += 9999
    await send(upstream, { totalMs: 0 }).over
    assert.equal(sent.received.fault, undefined)
    time.nowMs += 10_000
    const { fault } = await sent.over
    assert.deepEqual(fault, {
      kind: 'timeout',
      cause: 'nothing of the request body was taken within 10000 ms',
    })
  })

  it('between pieces of the body begins anew with each', async (t) => {
    const { scripted, upstream, time } = await timed(t, { onRequest: ({ socket }) => socket.write(HEAD) })
    const sent = send(upstream, { ...QUIET })
    await until(() => sent.received.status === 200)
    for (let i = 1; i <= 3; i++) {
      time.nowMs += 9999
      await send(upstream, { totalMs: 0 }).over
      scripted.requests[0]!.socket.write('x')
      await until(() => sent.received.chunks.length === i)
    }
    time.nowMs += 10_000
    const received = await sent.over
    assert.deepEqual(received.fault, { kind: 'timeout', cause: 'no piece of the body within 10000 ms' })
  })

  it('between pieces of the body does not run while the receiver holds it back', async (t) => {
    const { upstream, time } = await timed(t, { onRequest: ({ socket }) => socket.write(`${HEAD}abc`) })
    const sent = send(upstream, { ...QUIET }, () => false)
    await until(() => sent.received.chunks.length === 1)
    time.nowMs += 100_000
    await send(upstream, { totalMs: 0 }).over
    assert.equal(sent.received.fault, undefined)
    sent.call.resume()
    await new Promise((resolve) => setImmediate(resolve))
    time.nowMs += 10_000
    assert.match((await sent.over).fault!.cause, /no piece/)
  })

  itInBytes('between pieces of the body is not touched by an upload that ends after the head', async (t) => {
    const { upstream, time } = await timed(t, {
      onConnection: (socket) => socket.once('data', () => socket.write(`${HEAD}abc`)),
    })
    const body = new Readable({ read() {} })
    const sent = send(upstream, { method: 'POST', body, ...QUIET }, () => false)
    body.push('abc')
    await until(() => sent.received.chunks.length === 1)
    body.push(null)
    await until(() => body.readableEnded)
    time.nowMs += 100_000
    await send(upstream, { totalMs: 0 }).over
    assert.equal(sent.received.fault, undefined)
    sent.call.abort()
  })

  // http2/sessions.test.ts has this test for HTTP/2.
  itInBytes(
    'between pieces of the body begins anew with each piece of an upload that the upstream takes',
    async (t) => {
      const { scripted, upstream, time } = await timed(t, {
        onConnection: (socket) => socket.once('data', () => socket.write(`${HEAD}abc`)),
      })
      const body = new Readable({ read() {} })
      const sent = send(upstream, { method: 'POST', body, ...QUIET })
      body.push('begin')
      await until(() => sent.received.chunks.length === 1)
      for (let i = 1; i <= 3; i++) {
        time.nowMs += 9999
        await send(upstream, { totalMs: 0 }).over
        assert.equal(sent.received.fault, undefined)
        body.push(`piece${i}`)
        await until(() => scripted.received.includes(`piece${i}`))
      }
      time.nowMs += 10_000
      assert.equal((await sent.over).fault?.kind, 'unsent')
    },
  )

  it('as a whole is bounded only where the call asks for it', async (t) => {
    const { scripted, upstream, time } = await timed(t, { onRequest: ({ socket }) => socket.write(HEAD) })
    const sent = send(upstream, QUIET)
    await until(() => sent.received.status === 200)
    for (let i = 1; i <= 9; i++) {
      time.nowMs += 9999
      await send(upstream, { totalMs: 0 }).over
      scripted.requests[0]!.socket.write('x')
      await until(() => sent.received.chunks.length === i)
    }
    assert.equal((await sent.over).fault, undefined)
  })

  it('as a whole, when it runs out, is blamed on the receiver that held the response back', async (t) => {
    const { upstream, time } = await timed(t, { onRequest: ({ socket }) => socket.write(`${HEAD}abc`) })
    const sent = send(upstream, { totalMs: 5000 }, () => false)
    await until(() => sent.received.chunks.length === 1)
    time.nowMs += 5000
    assert.equal((await sent.over).fault?.kind, 'unread')
  })

  it('as a whole, when it runs out, is blamed on the sender whose body did not come', async (t) => {
    const { scripted, upstream, time } = await timed(t, {})
    const body = new Readable({ read() {} })
    const sent = send(upstream, { method: 'POST', body, totalMs: 5000 })
    body.push('abc')
    await until(() => scripted.received.includes('abc'))
    time.nowMs += 5000
    assert.equal((await sent.over).fault?.kind, 'unsent')
  })

  it('as a whole is bounded, connecting included, however busy the upstream keeps it', async (t) => {
    const { scripted, upstream, time } = await timed(t, { onRequest: ({ socket }) => socket.write(HEAD) })
    const sent = send(upstream, { totalMs: 5000 })
    await until(() => sent.received.status === 200)
    time.nowMs += 4999
    scripted.requests[0]!.socket.write('x')
    await until(() => sent.received.chunks.length === 1)
    time.nowMs += 1
    const received = await sent.over
    assert.deepEqual(received.fault, {
      kind: 'timeout',
      cause: 'not over within 5000 ms: the response was still coming',
      isNeutral: true,
    })
    await until(() => scripted.inUse() === 0)
  })

  it('is not extended by interim responses', async (t) => {
    const { scripted, upstream, time } = await timed(t, {})
    const sent = send(upstream)
    await until(() => scripted.requests.length === 1)
    time.nowMs += 29_000
    scripted.requests[0]!.socket.write('HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n')
    await until(() => sent.received.information.length === 2)
    time.nowMs += 1000
    assert.equal((await sent.over).fault?.kind, 'timeout')
  })

  it('is over with the exchange: nothing is called later, and no timer is left', async (t) => {
    const { upstream, time } = await timed(t, { onRequest: ({ socket }) => socket.write(ok('x')) })
    const sent = send(upstream)
    assert.ok((await sent.over).ended)
    time.nowMs += 1_000_000
    await send(upstream, { totalMs: 0 }).over
    assert.equal(sent.received.fault, undefined)
  })

  it('on the real clock is kept to within 20 % for limits from 250 ms on', async (t) => {
    const { upstream } = await pair(t, {}, { headersMs: 250 })
    // A machine under load may be late, but must never be early.
    let best = Number.POSITIVE_INFINITY
    for (let i = 0; i < 100 && best > 300; i++) {
      // The other exchange starts the sweeps of every 50 ms, so that they meet this exchange at changing moments.
      const other = send(upstream, { method: 'POST' })
      await new Promise((resolve) => setTimeout(resolve, 1 + ((7 * i) % 50)))
      const startedAt = performance.now()
      await send(upstream, { method: 'POST' }).over
      const tookMs = performance.now() - startedAt
      await other.over
      assert.ok(tookMs >= 250, `${tookMs} ms`)
      best = Math.min(best, tookMs)
    }
    assert.ok(best <= 300, `${best} ms`)
  })
})

describe('deadlines', () => {
  it('look at each thing once in a sweep, though things go and come while they are looked at', async () => {
    const deadlines = new Deadlines(() => 7)
    const seen: number[] = []
    const swept = Promise.withResolvers<void>()
    const things = Array.from({ length: 6 }, (_, id) => ({
      slot: -1,
      checkTime(nowMs: number) {
        assert.equal(nowMs, 7)
        seen.push(id)
        // Removes itself and its lower neighbour, like a fault that gives up a second exchange.
        deadlines.remove(things[id]!)
        const neighbour = things[id - 1]
        if (neighbour !== undefined) deadlines.remove(neighbour)
        if (id <= 1) swept.resolve()
      },
    }))
    for (const thing of things) deadlines.add(thing)
    await swept.promise
    assert.deepEqual(seen, [5, 3, 1])
  })
})
