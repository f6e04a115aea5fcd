import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { describe, it } from 'node:test'
import {
  bodyOf,
  ok,
  pair,
  type Received,
  reset,
  send,
  until,
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

/** Expects a whole response with the body that was framed, or a fault; never a whole response with another's bytes. */
function assertSafe(received: Received): void {
  if (received.ended) assert.ok(['', 'hi', 'good', 'EVIL'].includes(bodyOf(received)), bodyOf(received))
  else assert.match(received.fault?.kind ?? '', /^(broken|malformed)$/)
  assert.ok(received.headers.length < 20)
}

describe('an upstream that sends', () => {
  for (const [what, [hostility, then]] of Object.entries(HOSTILE)) {
    it(`${what} harms that call at most, and no other call gets its bytes`, async (t) => {
      const onRequest = ({ socket, head }: WireRequest): void => {
        if (!head.includes('/hostile')) socket.write(ok(/ \/(\w+)/.exec(head)?.[1] ?? ''))
        else if (typeof hostility === 'function') hostility(socket)
        else if (then === 'fin') socket.end(hostility, 'latin1')
        else socket.write(hostility, 'latin1')
      }
      const { scripted, upstream } = await pair(t, { onRequest }, { maxConnections: 4 })
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
})
