import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  DATA,
  END_HEADERS,
  END_STREAM,
  HEADERS,
  PREFACE,
  settingsFrame,
  WINDOW_UPDATE,
} from '../edge/http2/frames.ts'
import type { Attack } from './client-attacks.ts'
import { frame, GET, POST, REST, request } from './http2-attacks.ts'

const ADDRESS = '127.0.0.2'
const HEAD = '/open/pieces HTTP/1.1\r\nHost: a\r\n'
/** On this path the service responds with `PIECES` chunks of one byte. */
export const PIECES_PATH = '/open/pieces'
export const PIECES = 300_000
const CHUNKS = 1_000_000
const PER_WRITE = 10_000

/** Many requests or pieces in few bytes. */
export const PIECE_ATTACKS: Readonly<Record<string, Attack>> = {
  chunks: {
    what: `a request body of ${CHUNKS.toLocaleString('en-US')} chunks of one byte`,
    haproxy: true,
    begin: async ({ port }) => {
      const socket = await open(port)
      socket.write(`POST ${HEAD}Transfer-Encoding: chunked\r\n\r\n`)
      const chunks = Buffer.from('1\r\nx\r\n'.repeat(PER_WRITE))
      for (let sent = 0; sent < CHUNKS; sent += PER_WRITE) await write(socket, chunks)
      await write(socket, Buffer.from('0\r\n\r\n'))
    },
  },
  'chunked-response': {
    what: `a response of ${PIECES.toLocaleString('en-US')} chunks of one byte`,
    haproxy: true,
    begin: async ({ port }) => {
      const socket = await open(port)
      socket.write(`GET ${HEAD}\r\n`)
    },
  },
  'h2-data': {
    what: `HTTP/2: a request body of ${PIECES.toLocaleString('en-US')} DATA frames of one byte`,
    haproxy: true,
    http2: true,
    begin: async ({ port }) => {
      const socket = await open(port)
      let credit = 65_535
      socket.on('data', (bytes: Buffer) => {
        credit += creditIn(bytes)
      })
      socket.write(
        Buffer.concat([Buffer.from(PREFACE), settingsFrame([]), frame(HEADERS, END_HEADERS, 1, POST + REST)]),
      )
      const one = frame(DATA, 0, 1, 'x')
      for (let left = PIECES; left > 0 && !socket.destroyed; ) {
        const count = Math.min(left, credit, PER_WRITE)
        if (count > 0) await write(socket, Buffer.concat(Array.from({ length: count }, () => one)))
        else await sleep(1)
        left -= count
        credit -= count
      }
      socket.write(frame(DATA, END_STREAM, 1))
    },
  },
  'h2-many': {
    what: 'HTTP/2: 300 connections, each with 100 requests at once',
    haproxy: true,
    http2: true,
    connections: 300,
    begin: async ({ port }) => {
      const requests = Array.from({ length: 100 }, (_, at) => request(2 * at + 1, GET + REST))
      const bytes = Buffer.concat([Buffer.from(PREFACE), settingsFrame([]), ...requests])
      const sockets = await Promise.all(Array.from({ length: 300 }, () => open(port)))
      for (const socket of sockets) socket.write(bytes)
    },
  },
  metrics: {
    what: '80 connections to the admin listener that each pipeline 50 requests for /metrics; bystanders request /healthz',
    bystanders: 'probe',
    begin: async ({ adminPort }) => {
      const sockets = await Promise.all(Array.from({ length: 80 }, () => open(adminPort)))
      for (const socket of sockets)
        socket.write('GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(50))
    },
  },
}

async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress: ADDRESS, noDelay: true })
  socket.on('error', () => {})
  socket.resume()
  await once(socket, 'connect')
  return socket
}

async function write(socket: Socket, bytes: Buffer): Promise<void> {
  if (socket.destroyed || socket.write(bytes)) return
  await Promise.race([once(socket, 'drain'), once(socket, 'close')])
}

/** The bytes by which the frames extend the stream's window; a frame cut in two is ignored. */
function creditIn(bytes: Buffer): number {
  let credit = 0
  for (let at = 0; at + 13 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3))
    if (bytes[at + 3] === WINDOW_UPDATE && bytes.readUInt32BE(at + 5) === 1)
      credit += bytes.readUInt32BE(at + 9)
  return credit
}
