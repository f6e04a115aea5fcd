import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { blockOf, frameOf } from '../../edge/http2/frame-client.test-support.ts'
import {
  ACK,
  acknowledgement,
  DATA,
  END_HEADERS,
  HEADER_BYTES,
  HEADERS,
  PREFACE,
  SETTINGS,
  settingsFrame,
} from '../../edge/http2/frames.ts'
import type { UpstreamsOptions } from '../balancing/origin.ts'
import { upstreamsTo } from '../contract/scripted.test-support.ts'

export interface Frame {
  readonly type: number
  readonly flags: number
  readonly id: number
  readonly payload: Buffer
}

/** One connection to an upstream that says frame by frame what a test wants. */
export interface FramedConnection {
  readonly number: number
  readonly socket: Socket
  /** Received, in order. */
  readonly frames: Frame[]
  write(...frames: readonly Buffer[]): void
}

interface FramedUpstream {
  readonly url: string
  readonly connections: FramedConnection[]
  close(): Promise<void>
}

/** @param fields flat; pseudo-fields too */
export function head(id: number, fields: readonly string[], flags = 0): Buffer {
  const pairs = fields.flatMap((name, at) => (at % 2 === 0 ? [[name, fields[at + 1] ?? ''] as const] : []))
  return frameOf(HEADERS, flags | END_HEADERS, id, blockOf(pairs))
}

export function data(id: number, text: string, flags = 0): Buffer {
  return frameOf(DATA, flags, id, text)
}

/** Called for the head of each request. */
export type Script = (connection: FramedConnection, id: number) => void

/** An upstream that sends frames, and a client of it; both end with the test. */
export async function pair(
  t: TestContext,
  script: Script,
  options: Partial<UpstreamsOptions> = {},
  settings?: Buffer,
) {
  const framed = await framedUpstream(script, settings)
  const upstream = upstreamsTo([framed.url], options)
  t.after(async () => {
    await framed.close()
    await upstream.close()
  })
  return { framed, upstream }
}

async function framedUpstream(onHead: Script, settings = settingsFrame([])): Promise<FramedUpstream> {
  const connections: FramedConnection[] = []
  const server = createServer((socket) => {
    const frames: Frame[] = []
    const connection: FramedConnection = {
      number: connections.length + 1,
      socket,
      frames,
      write: (...written) => socket.write(Buffer.concat(written)),
    }
    connections.push(connection)
    socket.on('error', () => {})
    let pending: Buffer = Buffer.alloc(0)
    let skipped = false
    socket.write(settings)
    socket.on('data', (bytes: Buffer) => {
      pending = Buffer.concat([pending, bytes])
      if (!skipped && pending.length < PREFACE.length) return
      if (!skipped) pending = pending.subarray(PREFACE.length)
      skipped = true
      while (pending.length >= HEADER_BYTES) {
        const end = HEADER_BYTES + pending.readUIntBE(0, 3)
        if (pending.length < end) return
        const [type = 0, flags = 0] = pending.subarray(3)
        const received = {
          type,
          flags,
          id: pending.readUInt32BE(5),
          payload: pending.subarray(HEADER_BYTES, end),
        }
        pending = pending.subarray(end)
        frames.push(received)
        if (type === SETTINGS && flags !== ACK) socket.write(acknowledgement(SETTINGS, Buffer.alloc(0)))
        if (type === HEADERS) onHead(connection, received.id)
      }
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `h2c://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections,
    async close() {
      for (const { socket } of connections) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
