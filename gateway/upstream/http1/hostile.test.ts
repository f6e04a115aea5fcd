import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import {
  bodyOf,
  ok,
  type Received,
  reset,
  scriptedUpstream,
  send,
  until,
  upstreamsTo,
  type WireRequest,
} from '../contract/scripted.test-support.ts'

const H = 'HTTP/1.1 200 OK\r\n'
const CHUNKED = `${H}Transfer-Encoding: chunked\r\n\r\n`
const EVIL = ok('EVIL')

type Hostility = string | ((socket: Socket) => unknown)

/** What an upstream sends to the call of `/hostile`, and whether it then closes. To other calls it behaves. */
const HOSTILE: Readonly<Record<string, readonly [Hostility, 'fin' | 'stays']>> = {
  'a length that is too small, then another response': [`${H}Content-Length: 2\r\n\r\nhi${EVIL}`, 'stays'],
  'a length that is too small by one': [`${H}Content-Length: 4\r\n\r\nEVIL!`, 'stays'],
  'a length that is too large': [`${H}Content-Length: 99\r\n\r\nhi`, 'fin'],
  'both framings, length first': [
    `${H}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${EVIL}`,
    'stays',
  ],
  'both framings, chunks first': [
    `${H}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n${EVIL}`,
    'stays',
  ],
  'an end before anything': ['', 'fin'],
  'an end within the status line': ['HTTP/1.1 2', 'fin'],
  'an end within a field': [`${H}Content-Le`, 'fin'],
  'an end before the body': [`${H}Content-Length: 4\r\n\r\n`, 'fin'],
  'an end before the first chunk': [CHUNKED, 'fin'],
  'an end within a chunk': [`${CHUNKED}4\r\nEV`, 'fin'],
  'an end before the last chunk': [`${CHUNKED}4\r\nEVIL\r\n`, 'fin'],
  'an end before the trailers are over': [`${CHUNKED}4\r\nEVIL\r\n0\r\nT: x\r\n`, 'fin'],
  'a reset within the body': [
    (socket) => socket.write(`${H}Content-Length: 9\r\n\r\nEVIL`, () => reset(socket)),
    'stays',
  ],
  'a giant field without end': [`${H}A: ${'a'.repeat(100_000)}`, 'stays'],
  'fields without end': [`${H}${'A: b\r\n'.repeat(5000)}`, 'stays'],
  'a status line without end': [`HTTP/1.1 200 ${'a'.repeat(100_000)}`, 'stays'],
  'trailers without end': [`${CHUNKED}0\r\n${'A: b\r\n'.repeat(5000)}`, 'stays'],
  'an extension without end': [`${CHUNKED}1;${'a'.repeat(100_000)}`, 'stays'],
  'a flood of interim responses': ['HTTP/1.1 102 P\r\n\r\n'.repeat(10_000), 'stays'],
  'a flood of hints': ['HTTP/1.1 103 E\r\nLink: </a>\r\n\r\n'.repeat(10_000), 'stays'],
  'a 101 that was not requested': [
    `HTTP/1.1 101 S\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n${EVIL}`,
    'stays',
  ],
  'a 204 with a body': [`HTTP/1.1 204 N\r\n\r\n${EVIL}`, 'stays'],
  'a 204 with a body that it announces': [`HTTP/1.1 204 N\r\nContent-Length: 4\r\n\r\n${EVIL}`, 'stays'],
  'a 204 with a body later': [
    (socket) =>
      socket.write('HTTP/1.1 204 N\r\nContent-Length: 4\r\n\r\n', () =>
        setTimeout(() => socket.write(EVIL), 5),
      ),
    'stays',
  ],
  'a 304 with a body': [`HTTP/1.1 304 N\r\nContent-Length: 4\r\n\r\n${EVIL}`, 'stays'],
  'a second response right behind': [`${ok('good')}${EVIL}`, 'stays'],
  'a hundred responses right behind': [`${ok('good')}${EVIL.repeat(100)}`, 'stays'],
  'a second response behind chunks': [`${CHUNKED}4\r\ngood\r\n0\r\n\r\n${EVIL}`, 'stays'],
  'half of a second response': [`${ok('good')}${EVIL.slice(0, 20)}`, 'stays'],
  'an empty line behind': [`${ok('good')}\r\n`, 'stays'],
}

async function upstreamOf(t: TestContext, onRequest: (request: WireRequest) => unknown, maxConnections = 4) {
  const scripted = await scriptedUpstream({ onRequest })
  const upstream = upstreamsTo([scripted.url], { maxConnections })
  t.after(async () => {
    await upstream.close()
    await scripted.close()
  })
  return { scripted, upstream }
}

/** Expects a whole response with the body that was framed, or a fault; never a whole response with another's bytes. */
function assertSafe(received: Received): void {
  if (received.ended) assert.ok(['', 'hi', 'good', 'EVIL'].includes(bodyOf(received)), bodyOf(received))
  else assert.match(received.fault?.kind ?? '', /^(broken|malformed)$/)
  assert.ok(received.headers.length < 20)
}

describe('an upstream that sends', () => {
  for (const [what, [hostility, then]] of Object.entries(HOSTILE)) {
    it(`${what} harms that call at most, and no other call gets its bytes`, async (t) => {
      const { scripted, upstream } = await upstreamOf(t, ({ socket, head }) => {
        if (!head.includes('/hostile')) socket.write(ok(/ \/(\w+)/.exec(head)?.[1] ?? ''))
        else if (typeof hostility === 'function') hostility(socket)
        else if (then === 'fin') socket.end(hostility, 'latin1')
        else socket.write(hostility, 'latin1')
      })
      for (let round = 0; round < 5; round++) {
        const received = await send(upstream, { method: 'POST', target: '/hostile' }).over
        assertSafe(received)
        if (bodyOf(received) === 'EVIL')
          assert.match(what, /small by one|trailers|reset|last chunk|end within/)
        const others = ['a', 'b', 'c'].map((name) => send(upstream, { target: `/${name}${round}` }).over)
        const bodies = (await Promise.all(others)).map((other) => bodyOf(other))
        assert.deepEqual(bodies, [`a${round}`, `b${round}`, `c${round}`])
      }
      await until(() => scripted.open.size <= 4)
    })
  }

  it('a response before any request loses the connection and is dropped', async (t) => {
    const { scripted, upstream } = await upstreamOf(t, ({ socket, head }) =>
      socket.write(ok(/ \/(\w+)/.exec(head)?.[1] ?? '')),
    )
    for (let i = 0; i < 5; i++) {
      assert.equal(bodyOf(await send(upstream, { method: 'POST', target: `/x${i}` }).over), `x${i}`)
      for (const socket of scripted.open) socket.write(EVIL)
      await until(() => scripted.open.size === 0)
    }
    assert.equal(scripted.connections, 5)
  })

  it('its response one byte at a time is understood', async (t) => {
    const text = `HTTP/1.1 103 E\r\nLink: a\r\n\r\n${CHUNKED}4;x=y\r\ngood\r\n0\r\nT: x\r\n\r\n`
    const { scripted, upstream } = await upstreamOf(t, async ({ socket }) => {
      for (const character of text) {
        socket.write(character)
        await new Promise((resolve) => setImmediate(resolve))
      }
    })
    for (let i = 0; i < 2; i++) {
      const received = await send(upstream).over
      assert.deepEqual([received.status, bodyOf(received), received.information.length], [200, 'good', 1])
    }
    assert.equal(scripted.connections, 1)
  })
})
