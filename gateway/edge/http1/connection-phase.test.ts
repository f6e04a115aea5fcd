import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  connectionsOf,
  respond,
  respondEmpty,
  type Seen,
  scribe,
  TRANSITIONS,
  transitionsSeen,
  wireTo,
} from './conformance/scribe.test-support.ts'
import { turns, type Wire } from './conformance/wire.test-support.ts'
import type { Connections } from './connections.ts'
import { createHttpServer } from './http-server.ts'

const GET = 'GET / HTTP/1.1\r\n\r\n'
const LAST = 'GET / HTTP/1.1\r\nConnection: close\r\n\r\n'
const POST = 'POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n'
const UPGRADE =
  'GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a\r\n\r\n'

interface Step {
  readonly wire: Wire
  readonly seen: readonly Seen[]
  readonly time: { nowMs: number }
  readonly connections: Connections<Seen>
}

/** One connection each. Requests are not responded to unless the steps do so. */
const LIVES: readonly ((step: Step) => unknown)[] = [
  // Another process takes the connections over.
  async ({ wire, connections }) => {
    await turns()
    connections.park(() => {})
    wire.send(GET)
  },
  async ({ wire, connections }) => {
    wire.send('GET')
    await turns()
    connections.park(() => {})
  },
  async ({ wire, seen, connections }) => {
    wire.send(GET)
    await turns()
    connections.park(() => {})
    respond((seen[0] as Seen).res)
  },
  // A response that is not taken, until the keep-alive time is over.
  async ({ wire, seen, time }) => {
    wire.stall(true)
    wire.send(GET)
    await turns()
    respondEmpty(seen[0] as Seen)
    await turns()
    time.nowMs += 7000
  },
  ({ wire }) => wire.sendEnd(),
  ({ wire }) => wire.send('NO\r\n\r\n'),
  async ({ wire, seen }) => {
    wire.send(`${POST}01`)
    await turns()
    wire.send('23456789')
    await turns()
    respond((seen[0] as Seen).res)
  },
  async ({ wire, seen }) => {
    wire.send(`${POST}01`)
    await turns()
    respond((seen[0] as Seen).res)
  },
  ({ wire }) => wire.send('POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nno'),
  async ({ wire, seen }) => {
    wire.send(LAST)
    await turns()
    respond((seen[0] as Seen).res)
  },
  async ({ wire }) => {
    wire.send(LAST)
    await turns()
    wire.destroy()
  },
  async ({ wire, seen }) => {
    wire.send(UPGRADE)
    await turns()
    ;(seen[0] as Seen).res.switch('HTTP/1.1 101 Switching Protocols\r\n\r\n', () => {})
  },
  async ({ wire }) => {
    wire.send('NO\r\n\r\n')
    await turns()
    wire.destroy()
  },
  async ({ wire, seen }) => {
    wire.send('NO\r\n\r\n')
    await turns()
    respond((seen[0] as Seen).res)
  },
]

describe('the table of transitions of a connection', () => {
  it('has every transition that happens, and no other', async () => {
    for (const live of LIVES) {
      const time = { nowMs: 0 }
      const handler = scribe({ begun: () => {}, refused: () => {} })
      const connections = connectionsOf(handler, { steadyClock: () => time.nowMs })
      const wire = wireTo(createHttpServer(connections))
      await live({ wire, seen: handler.seen, time, connections })
      // Waits three times, so that the sweeps of 50 ms come in between, however late all timers are.
      for (let i = 0; i < 3; i++) await new Promise((resolve) => setTimeout(resolve, 50))
      wire.destroy()
      await turns()
    }
    const inTable = Object.entries(TRANSITIONS).flatMap(([from, next]) =>
      Object.keys(next).map((to) => `${from} -> ${to}`),
    )
    assert.deepEqual([...transitionsSeen].sort(), inTable.sort())
  })
})
