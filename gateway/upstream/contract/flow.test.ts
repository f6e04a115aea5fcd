import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import {
  bodyOf,
  itInBytes,
  ok,
  pair,
  requestOf,
  type ScriptedOptions,
  send,
  transport,
  until,
} from './scripted.test-support.ts'

const MIB = 1024 * 1024
const BODY_BYTES = 200 * MIB
/** A generous bound for the kernel's buffers of one connection; a gateway that did not hold back would show 200 MiB. */
const IN_FLIGHT_BYTES = 24 * MIB
const CHUNK = Buffer.alloc(64 * 1024, 'x')

describe('a body of 200 MiB', () => {
  it('comes down no faster than the receiver takes it', async (t) => {
    let sent = 0
    const { upstream } = await pair(t, {
      onRequest({ socket }) {
        const pump = (): void => {
          while (sent < BODY_BYTES) {
            sent += CHUNK.length
            if (!socket.write(CHUNK)) return
          }
          socket.off('drain', pump)
        }
        socket.on('drain', pump)
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${BODY_BYTES}\r\n\r\n`)
        pump()
      },
    })
    let received = 0
    let mostInFlight = 0
    let receivedWhilePaused = 0
    let held = false
    const over = Promise.withResolvers<void>()
    const call = upstream.send(requestOf({ totalMs: 600_000 }), {
      isHolding: false,
      information() {},
      head() {},
      data(chunk) {
        if (held) receivedWhilePaused += 1
        received += chunk.length
        mostInFlight = Math.max(mostInFlight, sent - received)
        held = true
        // The receiver is slow, because everything else that is ready gets its turn first.
        setImmediate(() => {
          held = false
          call.resume()
        })
        return false
      },
      end: () => over.resolve(),
      upgrade() {},
      fault: ({ cause }) => over.reject(new Error(cause)),
    })
    await over.promise
    assert.equal(received, BODY_BYTES)
    assert.equal(receivedWhilePaused, 0)
    assert.ok(mostInFlight < IN_FLIGHT_BYTES, `${mostInFlight} bytes in flight`)
  })

  itInBytes('goes up no faster than the upstream reads it', async (t) => {
    let arrived = 0
    const { upstream } = await pair(t, {
      onConnection(socket) {
        socket.pause()
        socket.on('readable', () => {
          const chunk: Buffer | null = socket.read()
          arrived += chunk?.length ?? 0
          if (arrived >= BODY_BYTES) socket.write(ok('thanks'))
        })
      },
    })
    let produced = 0
    let mostInFlight = 0
    const body = new Readable({
      read() {
        mostInFlight = Math.max(mostInFlight, produced - arrived)
        if (produced < BODY_BYTES) this.push(CHUNK)
        else this.push(null)
        produced += CHUNK.length
      },
    })
    const headers = ['host', 'h', 'content-length', String(BODY_BYTES)]
    const received = await send(upstream, { method: 'PUT', headers, body, totalMs: 600_000 }).over
    assert.equal(bodyOf(received), 'thanks')
    assert.ok(mostInFlight < IN_FLIGHT_BYTES, `${mostInFlight} bytes in flight`)
  })

  itInBytes('that is not read pauses its source', async (t) => {
    const { scripted, upstream } = await pair(t, { onConnection: (socket) => socket.pause() })
    let produced = 0
    const body = new Readable({
      read() {
        produced += CHUNK.length
        this.push(CHUNK)
      },
    })
    const { call } = send(upstream, { method: 'POST', body })
    let before = -1
    // Ends when 100 ms bring nothing more.
    while (produced !== before) {
      before = produced
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    assert.ok(produced < IN_FLIGHT_BYTES, `${produced} bytes taken from the source`)
    call.abort()
    for (const socket of scripted.open) socket.resume()
    await until(() => scripted.inUse() === 0)
  })
})

describe('an abort', () => {
  const SCRIPTS: Readonly<Record<string, ScriptedOptions>> = {
    'before the head': {},
    'after the head': {
      onRequest: ({ socket }) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n'),
    },
    'within the body': {
      onRequest: ({ socket }) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc'),
    },
  }
  for (const [when, script] of Object.entries(SCRIPTS)) {
    it(`${when} closes the upstream's connection at once, tells nothing more, and costs no other connection`, async (t) => {
      const { scripted, upstream } = await pair(t, script, { maxConnections: 1 })
      const { call, received } = send(upstream, { method: 'POST' })
      await until(() => scripted.requests.length === 1)
      if (when !== 'before the head') await until(() => received.status === 200)
      if (when === 'within the body') await until(() => received.chunks.length === 1)
      const before = { ...received, chunks: received.chunks.length }
      const startedAt = performance.now()
      call.abort()
      call.abort()
      call.resume()
      await until(() => scripted.inUse() === 0)
      // The wait for a head or a body would end the exchange only later.
      assert.ok(performance.now() - startedAt < 10_000)
      assert.deepEqual({ ...received, chunks: received.chunks.length }, before)
      assert.equal(scripted.connections, 1)
    })
  }

  it('while the body is paused closes the connection, and a late resume does nothing', async (t) => {
    const { scripted, upstream } = await pair(t, {
      onRequest: ({ socket }) =>
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n${'x'.repeat(500_000)}`),
    })
    const { call, received } = send(upstream, {}, () => false)
    await until(() => received.chunks.length === 1)
    call.resume()
    call.abort()
    call.resume()
    await until(() => scripted.inUse() === 0)
    assert.equal(received.chunks.length, 1)
  })

  it('from within head and data stops the exchange there', async (t) => {
    const { scripted, upstream } = await pair(t, { onRequest: ({ socket }) => socket.write(ok('abc')) })
    let heads = 0
    const call = upstream.send(requestOf(), {
      isHolding: false,
      information() {},
      head() {
        heads += 1
        call.abort()
      },
      data: () => assert.fail('data after abort'),
      end: () => assert.fail('end after abort'),
      upgrade() {},
      fault: () => assert.fail('fault after abort'),
    })
    await until(() => heads === 1 && scripted.inUse() === 0)
    const sent = send(upstream, {}, (_, own) => {
      own.abort()
      return false
    })
    await until(() => sent.received.chunks.length === 1 && scripted.inUse() === 0)
    assert.equal(sent.received.ended, false)
  })

  it('right after send, and while connecting, gives the attempt up', async (t) => {
    const health: boolean[] = []
    const { scripted, upstream } = await pair(
      t,
      { onRequest: ({ socket }) => socket.write(ok('x')) },
      { maxConnections: 1, onHealth: (_, healthy) => health.push(healthy) },
    )
    const first = send(upstream)
    first.call.abort()
    const second = send(upstream)
    await new Promise((resolve) => process.nextTick(() => process.nextTick(resolve)))
    second.call.abort()
    assert.ok((await send(upstream).over).ended)
    assert.deepEqual([first.received.status, second.received.status], [undefined, undefined])
    assert.equal(scripted.requests.length, 1)
    await until(() => scripted.open.size === 1)
    assert.deepEqual(health, [])
  })

  it('leaves the downstream body to its owner', async (t) => {
    const { scripted, upstream } = await pair(t, {})
    const body = new Readable({ read() {} })
    const { call } = send(upstream, { method: 'POST', body })
    body.push('abc')
    await until(() => scripted.received.includes('abc'))
    call.abort()
    await until(() => scripted.inUse() === 0)
    assert.equal(body.destroyed, false)
    assert.equal(body.listenerCount('data'), 0)
  })
})

/** Exchanges at once. They are fewer with TLS, because handshakes are a hundred times slower. */
const MANY = transport.tls === undefined ? 1000 : 60
const THIRD = MANY / 10

describe('many exchanges at once', () => {
  it('all get their own response, on no more connections than exchanges', async (t) => {
    const { scripted, upstream } = await pair(
      t,
      { onRequest: ({ socket, head }) => socket.write(ok(/ \/(\d+)/.exec(head)?.[1] ?? '')) },
      // The clock stands still, because a round on a loaded machine may outlast the keeping of an idle connection.
      { maxConnections: MANY, clock: () => 0 },
    )
    for (let round = 0; round < 3; round++) {
      const calls = Array.from({ length: MANY }, (_, i) => send(upstream, { target: `/${round * MANY + i}` }))
      const received = await Promise.all(calls.map(({ over }) => over))
      for (const [i, each] of received.entries()) assert.equal(bodyOf(each), String(round * MANY + i))
    }
    assert.ok(scripted.connections <= MANY)
  })

  it('with a third of them aborted and a third broken leave every connection usable', async (t) => {
    const { scripted, upstream } = await pair(
      t,
      {
        onRequest: ({ socket, head }) => (head.includes('/break') ? socket.destroy() : socket.write(ok('x'))),
      },
      { maxConnections: 3 * THIRD },
    )
    const calls = Array.from({ length: 3 * THIRD }, (_, i) =>
      send(upstream, { method: 'POST', target: i % 3 ? '/' : '/break' }),
    )
    for (const [i, { call }] of calls.entries()) if (i % 3 === 1) setImmediate(() => call.abort())
    const received = await Promise.all(calls.filter((_, i) => i % 3 !== 1).map(({ over }) => over))
    assert.equal(received.filter(({ fault }) => fault?.kind === 'broken').length, THIRD)
    assert.equal(received.filter(({ ended }) => ended).length, THIRD)
    const again = await Promise.all(Array.from({ length: 3 * THIRD }, () => send(upstream).over))
    assert.ok(again.every(({ ended }) => ended))
    assert.ok(scripted.open.size <= 3 * THIRD)
  })
})

describe('a callback of one request', () => {
  it('may send another request, whatever the connection of that request holds', async (t) => {
    const { upstream } = await pair(t, {
      onRequest: ({ socket, head }) =>
        socket.write(ok('x') + (head.includes('/surplus') ? ok('surplus') : '')),
    })
    // Leaves connections with unread bytes behind, then calls from within every callback.
    await Promise.all(Array.from({ length: 8 }, () => send(upstream, { target: '/surplus' }).over))
    const inner: ReturnType<typeof send>[] = []
    const over = Promise.withResolvers<void>()
    upstream.send(requestOf(), {
      isHolding: false,
      information() {},
      head: () => inner.push(send(upstream), send(upstream)),
      data: () => inner.push(send(upstream), send(upstream)) > 0,
      end() {
        inner.push(send(upstream), send(upstream))
        over.resolve()
      },
      upgrade() {},
      fault: ({ cause }) => over.reject(new Error(cause)),
    })
    await over.promise
    for (const each of await Promise.all(inner.map((sent) => sent.over))) assert.equal(bodyOf(each), 'x')
  })

  it('may resume another request', async (t) => {
    const big = 'y'.repeat(300_000)
    const { upstream } = await pair(t, { onRequest: ({ socket }) => socket.write(ok(big)) })
    const held = send(upstream, {}, () => false)
    await until(() => held.received.chunks.length === 1)
    while (!held.received.ended)
      await send(upstream, {}, () => {
        held.call.resume()
        return true
      }).over
    assert.equal(bodyOf(held.received), big)
  })
})
