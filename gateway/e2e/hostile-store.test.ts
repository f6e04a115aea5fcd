import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { describe, it } from 'node:test'
import { request, SECRETS } from '../idempotency/key-table.test-support.ts'
import type { Take } from '../limits/windows/window.ts'
import { StoreConnection } from '../store/connection/store-connection.ts'
import { storeAt, until } from '../store/redis-server.test-support.ts'
import { findSharedKeys } from '../store/shared-idempotency.ts'
import { SharedReplays } from '../store/shared-replays.ts'
import { SharedStore } from '../store/shared-store.ts'

const commandsIn = (data: Buffer) =>
  data
    .toString('latin1')
    .split(/^\*\d+\r$/m)
    .slice(1)
const forEach = (reply: string) => (socket: Socket, data: Buffer) => {
  for (const command of commandsIn(data)) socket.write(/\bSET\b/.test(command) ? '+OK\r\n' : reply)
}

/** Replies that no Redis sends. Each time the gateway must go on without the store. */
const NONSENSE: Readonly<Record<string, (socket: Socket, data: Buffer) => void>> = {
  'text for every command': forEach('+OK\r\n'),
  'nothing for every command': forEach('$-1\r\n'),
  'text in a list': forEach('*2\r\n$1\r\nx\r\n$-1\r\n'),
  'numbers, but too few': forEach('*1\r\n:1\r\n'),
  'an error for every command': forEach('-OOM command not allowed\r\n'),
  'the replies of a web server': (socket) => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'),
  'lengths below zero': (socket) => socket.write('$-5\r\n*-7\r\n'),
  'more replies than commands': (socket) => socket.write('+OK\r\n+OK\r\n+OK\r\n+OK\r\n'),
  'lists in lists': (socket) => socket.write('*1\r\n'.repeat(100_000)),
  'half a reply': (socket) => socket.end('*2\r\n:1\r\n'),
}

describe('a store that responds with', () => {
  for (const [name, respond] of Object.entries(NONSENSE)) {
    it(`${name} decides nothing, and does no harm`, async () => {
      const sockets = new Set<Socket>()
      const server = createServer((socket) => {
        sockets.add(socket)
        socket.on('close', () => sockets.delete(socket))
        socket.on('error', () => undefined)
        socket.on('data', (data) => respond(socket, data as Buffer))
      }).listen(0, '127.0.0.1')
      await once(server, 'listening')
      const silent = () => undefined
      const faults: string[] = []
      const settings = storeAt('single', [(server.address() as AddressInfo).port])
      const observer = { onAway: (cause: string) => faults.push(cause), onBack: silent, onFault: silent }
      const store = new SharedStore(settings, { ...observer, onFault: (cause) => faults.push(cause) }, 10_000)
      const { breaker, keys, takes } = store
      const replays = new SharedReplays({
        memory: { take: silent, begin: silent, end: silent, maintain: silent, entries: () => [] },
        clock: Date.now,
        ...{ breaker, keys, space: 'x', lifetimeMs: 1000, onStoreFailure: 'deny', id: 'g' },
      })
      try {
        await until(() => faults.length > 0 || !breaker.isOpen, 'a fault or a connection')
        for (let i = 0; i < 3; i++) {
          const take = new Promise<Take | undefined>((resolve) =>
            takes.take({ identity: 'row', rule: '5 60000 1' }, 'caller', resolve),
          )
          assert.equal(await take, undefined)
        }
        await assert.rejects(findSharedKeys(settings, SECRETS, [request('a')]))
        if (name === 'text in a list') assert.equal(await replays.take('message', 'sender'), 'away')
      } finally {
        store.close()
        server.close()
        // No connection stays open after the store is closed, nor after a failed attempt.
        await until(() => sockets.size === 0, 'the end of every connection').finally(() => {
          for (const socket of sockets) socket.destroy()
        })
      }
    })
  }
})

const MOST_BYTES = 64 * 1024 * 1024

describe('a store whose reply has no end', () => {
  for (const [name, begin, piece] of [
    ['a text', '$999999999\r\n', 'x'],
    ['a line', '+', 'x'],
    ['a list of texts', '*99999\r\n', `$50\r\n${'x'.repeat(50)}\r\n`],
    ['lists in lists', '', '*1000\r\n'],
  ] as const) {
    it(`loses its connection if the reply is ${name}, and the fault says why`, async () => {
      const ended = Promise.withResolvers<number>()
      const block = Buffer.from(piece.repeat(100_000))
      const server = createServer((socket) => {
        let sentBytes = 0
        const send = () => {
          while (sentBytes < MOST_BYTES) {
            sentBytes += block.length
            if (!socket.write(block)) return
          }
        }
        socket.on('error', () => undefined)
        socket.on('close', () => ended.resolve(sentBytes))
        socket.on('drain', send)
        socket.once('data', () => {
          socket.write(begin)
          send()
        })
      }).listen(0, '127.0.0.1')
      await once(server, 'listening')
      const fault = Promise.withResolvers<string>()
      const { port } = server.address() as AddressInfo
      const connection = new StoreConnection(storeAt('single', [port]), fault.resolve)
      connection.onReady(() => void connection.send(['PING']).catch(() => undefined))
      try {
        assert.match(await fault.promise, /^a reply of the store has more than /)
        assert.ok((await ended.promise) < MOST_BYTES)
      } finally {
        connection.close()
        server.close()
      }
    })
  }
})
