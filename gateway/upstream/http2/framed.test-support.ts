import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'

export const [DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE] = [
  0, 1, 3, 4, 6, 7, 8,
] as const
export const END_STREAM = 1
const END_HEADERS = 4
export const ACK = 1
const PREFACE_BYTES = 24
const HEADER_BYTES = 9

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

export function frame(
  type: number,
  flags: number,
  id: number,
  payload: Uint8Array = Buffer.alloc(0),
): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  header.writeUIntBE(payload.length, 0, 3)
  header[3] = type
  header[4] = flags
  header.writeUInt32BE(id, 5)
  return Buffer.concat([header, payload])
}

export function numbers(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length)
  for (const [index, value] of values.entries()) bytes.writeUInt32BE(value, 4 * index)
  return bytes
}

/** A head without Huffman codes. @param fields flat; pseudo-fields too */
export function head(id: number, fields: readonly string[], flags = 0): Buffer {
  const pieces = fields.flatMap((text, index) => {
    const bytes = Buffer.from(text, 'latin1')
    return index % 2 === 0 ? [Buffer.from([0]), length(bytes.length), bytes] : [length(bytes.length), bytes]
  })
  return frame(HEADERS, flags | END_HEADERS, id, Buffer.concat(pieces))
}

function length(bytes: number): Buffer {
  if (bytes < 127) return Buffer.from([bytes])
  const rest: number[] = [127]
  let left = bytes - 127
  for (; left >= 128; left >>= 7) rest.push((left & 127) | 128)
  return Buffer.from([...rest, left])
}

export function data(id: number, text: string, flags = 0): Buffer {
  return frame(DATA, flags, id, Buffer.from(text))
}

/** @param onHead called for the head of each request */
export async function framedUpstream(
  onHead: (connection: FramedConnection, id: number) => void,
  settings: Buffer | undefined = frame(SETTINGS, 0, 0),
): Promise<FramedUpstream> {
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
    if (settings !== undefined) socket.write(settings)
    socket.on('data', (bytes: Buffer) => {
      pending = Buffer.concat([pending, bytes])
      if (!skipped && pending.length < PREFACE_BYTES) return
      if (!skipped) pending = pending.subarray(PREFACE_BYTES)
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
        if (type === SETTINGS && flags !== ACK) socket.write(frame(SETTINGS, ACK, 0))
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
