import { createPrivateKey } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tokenOf } from './bench-tokens.ts'

/** What one client does to a gateway while others are measured. */
export interface Attack {
  readonly what: string
  /** How many files the gateway may open; undefined: as many as this program. */
  readonly files?: number
  /** Bystanders use TLS, signed webhooks or a known token, or ask /healthz; default: plain HTTP. */
  readonly bystanders?: 'tls' | 'webhooks' | 'token' | 'probe'
  readonly haproxy?: true
  readonly http2?: true
  /** The number of connections by which the cost is divided; undefined: only the total is reported. */
  readonly connections?: number
  /** Starts the attack. Connections that neither side closes stay open until this process ends. */
  begin(ports: Ports, keyFile: string): Promise<void>
}

export interface Ports {
  readonly port: number
  readonly tlsPort: number
  readonly adminPort: number
}

const MIB = 1024 * 1024
/** The attacker's address; only webhooks come from several. */
const ADDRESS = '127.0.0.2'
const UNPROVED = Buffer.alloc(32).toString('base64')
const SHORTEST = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const AHEAD = 2400
const HALF_BODY = 'POST /open/token HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n1'
const HALF_HEAD = 'GET /open/a HTTP/1.1\r\nHost: '
const HANDSHAKES_AT_ONCE = 250
const NEW_TOKENS = 20_000

export const ATTACKS: Readonly<Record<string, Attack>> = {
  ahead: {
    what: `200 connections that each pipeline ${AHEAD.toLocaleString('en-US')} requests of 27 bytes, then disconnect`,
    begin: async ({ port }) => {
      await Promise.all(Array.from({ length: 200 }, () => sendAndGo(port)))
    },
  },
  bodies: {
    what: '1,024 requests that send one byte of their body',
    begin: ({ port }) => openMany(port, { count: 1024, bytes: HALF_BODY }),
  },
  handshakes: {
    what: '5,000 connections to the TLS port without a handshake; the gateway may open 4,096 files',
    files: 4096,
    bystanders: 'tls',
    begin: ({ tlsPort }) => openMany(tlsPort, { count: 5000 }),
  },
  connections: {
    what: '600 connections that send half a request head; the gateway may open 512 files',
    files: 512,
    begin: ({ port }) => openMany(port, { count: 600, bytes: HALF_HEAD }),
  },
  webhooks: {
    what: '64 webhooks from 8 addresses that announce 1 MiB and send one byte',
    bystanders: 'webhooks',
    begin: async ({ port }) => {
      for (let i = 0; i < 64; i++) {
        await openMany(port, { count: 1, bytes: unprovedWebhook(), localAddress: `127.0.0.${2 + (i % 8)}` })
      }
    },
  },
  tokens: {
    what: '512 connections, each request with another valid token; bystanders send a known token',
    bystanders: 'token',
    begin: async ({ port }, keyFile) => {
      const key = createPrivateKey(readFileSync(keyFile, 'utf8'))
      const requests = Array.from({ length: NEW_TOKENS }, (_, i) => requestWith(tokenOf('ES256', key, i)))
      let next = 0
      const send = (socket: Socket) => socket.write(requests[next++ % NEW_TOKENS] ?? '')
      for (let i = 0; i < 512; i++) {
        const socket = await open(port, '', ADDRESS)
        socket.on('data', () => send(socket))
        send(socket)
      }
    },
  },
}

function unprovedWebhook(): string {
  const seconds = Math.floor(Date.now() / 1000)
  return `POST /hooks HTTP/1.1\r\nHost: a\r\nX-API-Key: key_acme\r\nWebhook-Id: msg_${Math.random().toString(36).slice(2)}\r\nWebhook-Timestamp: ${seconds}\r\nWebhook-Signature: v1,${UNPROVED}\r\nContent-Length: ${MIB}\r\n\r\n1`
}

function requestWith(token: string): string {
  return `GET /known HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`
}

interface Opening {
  readonly count: number
  readonly bytes?: string
  readonly localAddress?: string
}

/** Resolves when all have been tried, because the gateway may refuse some. */
async function openMany(port: number, { count, bytes = '', localAddress = ADDRESS }: Opening): Promise<void> {
  for (let opened = 0; opened < count; opened += HANDSHAKES_AT_ONCE) {
    const batch = Math.min(HANDSHAKES_AT_ONCE, count - opened)
    await Promise.all(Array.from({ length: batch }, () => open(port, bytes, localAddress)))
  }
}

async function open(port: number, bytes: string, localAddress: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress, noDelay: true })
  const settled = Promise.race([once(socket, 'connect'), once(socket, 'close')])
  socket.on('error', () => {})
  // Reads, to notice a reset.
  socket.resume()
  await settled.catch(() => {})
  if (bytes !== '') socket.write(bytes)
  return socket
}

async function sendAndGo(port: number): Promise<void> {
  const socket = await open(port, '', ADDRESS)
  socket.pause()
  const sent = new Promise<void>((resolve) => socket.write(SHORTEST.repeat(AHEAD), () => resolve()))
  await Promise.race([sent, new Promise((resolve) => setTimeout(resolve, 500))])
  socket.resetAndDestroy()
}
