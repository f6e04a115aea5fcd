import { until } from '../http1/conformance/client.test-support.ts'
import {
  type Acts,
  connectionsOf,
  type Seen,
  scribe,
  TIMEOUTS,
  wireTo,
} from '../http1/conformance/scribe.test-support.ts'
import { turns, type Wire } from '../http1/conformance/wire.test-support.ts'
import type { ClientTimeouts } from '../http1/connection-deadline.ts'
import type { Connections } from '../http1/connections.ts'
import { createHttpServer, type HttpServer } from '../http1/http-server.ts'
import {
  END_HEADERS,
  END_STREAM,
  GOAWAY,
  HEADER_BYTES,
  HEADERS,
  newFrame,
  PREFACE,
  RST_STREAM,
  SETTINGS,
} from './frames.ts'
import { HeadDecoder } from './hpack/head-decoder.ts'
import { http2 } from './http2-connection.ts'

interface SeenFrame {
  readonly type: number
  readonly flags: number
  readonly id: number
  readonly payload: Buffer
}

export type Fields = readonly (readonly [name: string, value: string])[]

export const GET: Fields = [
  [':method', 'GET'],
  [':scheme', 'http'],
  [':path', '/'],
  [':authority', 'gateway'],
]
export const POST: Fields = [[':method', 'POST'], ...GET.slice(1)]

export interface Served {
  readonly seen: readonly Seen[]
  /** Reported numbers of requests that were never begun. */
  readonly left: readonly number[]
  readonly http: HttpServer
  readonly connections: Connections<Seen>
  /** Set by the test. */
  readonly time: { nowMs: number }
  connect(address?: string): FrameClient
}

/** A server of HTTP/2 whose connections have no sockets. */
export function serveFrames(
  acts: Acts = {},
  {
    timeouts = {},
    maxConnections = 1000,
  }: { timeouts?: Partial<ClientTimeouts>; maxConnections?: number } = {},
): Served {
  const handler = scribe(acts)
  const time = { nowMs: 0 }
  const connections = connectionsOf(handler, {
    timeouts: { ...TIMEOUTS, ...timeouts },
    steadyClock: () => time.nowMs,
    maxConnections,
    http2,
    isPlainHttp2: true,
  })
  const http = createHttpServer(connections)
  return {
    seen: handler.seen,
    left: handler.left,
    http,
    connections,
    time,
    connect: (address) => new FrameClient(wireTo(http, address)),
  }
}

/** A client that sends exactly the frames that a test gives it. */
export class FrameClient {
  readonly wire: Wire

  /** Sends the preface and empty SETTINGS, or only the pieces of a wrong preface. */
  constructor(wire: Wire, preface?: readonly string[]) {
    this.wire = wire
    for (const piece of preface ?? [PREFACE]) this.bytes(Buffer.from(piece))
    if (preface === undefined) this.frame(SETTINGS, 0, 0)
  }

  bytes(bytes: Buffer): void {
    this.wire.send(bytes.toString('latin1'))
  }

  frame(type: number, flags: number, id: number, payload: Buffer | string = ''): void {
    this.bytes(frameOf(type, flags, id, payload))
  }

  /** Sends a whole request, unless `flags` says otherwise. */
  request(id: number, fields: Fields = GET, flags = END_STREAM): void {
    this.frame(HEADERS, flags | END_HEADERS, id, blockOf(fields))
  }

  get frames(): SeenFrame[] {
    const all = Buffer.from(this.wire.received, 'latin1')
    const frames: SeenFrame[] = []
    for (let at = 0; at + HEADER_BYTES <= all.length; ) {
      const length = all.readUIntBE(at, 3)
      const [type, flags] = [all[at + 3] as number, all[at + 4] as number]
      const payload = all.subarray(at + HEADER_BYTES, at + HEADER_BYTES + length)
      frames.push({ type, flags, id: all.readUInt32BE(at + 5), payload })
      at += HEADER_BYTES + length
    }
    return frames
  }

  of(type: number, id: number): SeenFrame[] {
    return this.frames.filter((frame) => frame.type === type && frame.id === id)
  }

  /** The heads that came on a stream, each as `name: value` lines. */
  heads(id: number): string[][] {
    const decoder = new HeadDecoder(4096)
    return this.of(HEADERS, id).map(({ payload }) => {
      const lines: string[] = []
      decoder.decode(payload, { take: ({ field }) => lines.push(`${field.name}: ${field.value}`) })
      return lines
    })
  }

  /** Waits for the first head on a stream. @returns its first line: `:status: 200` */
  async status(id: number): Promise<string | undefined> {
    await until(() => this.heads(id).length > 0 || this.wire.destroyed, 'a response')
    return this.heads(id)[0]?.[0]
  }

  /** The code with which the connection ended. */
  async goAway(): Promise<number> {
    await until(() => this.of(GOAWAY, 0).length > 0, 'a GOAWAY')
    return this.of(GOAWAY, 0).at(-1)?.payload.readUInt32BE(4) ?? -1
  }

  /** The code with which a stream was reset. */
  async reset(id: number): Promise<number> {
    await until(() => this.of(RST_STREAM, id).length > 0, 'an RST_STREAM')
    return this.of(RST_STREAM, id)[0]?.payload.readUInt32BE(0) ?? -1
  }

  settled(): Promise<void> {
    return turns()
  }
}

export function frameOf(type: number, flags: number, id: number, payload: Buffer | string = ''): Buffer {
  const content = Buffer.from(payload as string, 'latin1')
  const frame = newFrame({ type, flags, id, length: content.length })
  content.copy(frame, HEADER_BYTES)
  return frame
}

/** Literals without indexing and without Huffman code. */
export function blockOf(fields: Fields): Buffer {
  return Buffer.concat(
    fields.map(([name, value]) => Buffer.from(`\0${textOf(name)}${textOf(value)}`, 'latin1')),
  )
}

function textOf(text: string): string {
  if (text.length < 127) return String.fromCharCode(text.length) + text
  let rest = text.length - 127
  let length = '\x7f'
  for (; rest >= 128; rest >>= 7) length += String.fromCharCode((rest & 127) | 128)
  return length + String.fromCharCode(rest) + text
}

export function numbers(...all: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * all.length)
  for (const [at, number] of all.entries()) bytes.writeUInt32BE(number, 4 * at)
  return bytes
}
