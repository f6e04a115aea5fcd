import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { until } from './running-gateway.ts'

/** A connection that sends exactly the bytes that a test gives it. */
export interface Wire {
  readonly socket: Socket
  readonly received: string
  /** Undefined while the connection is open, `end` after a proper close, else the error's code. */
  readonly over: string | undefined
  send(bytes: string | Buffer): void
  /** Begins to read, after option `paused`. */
  read(): void
  has(text: string | RegExp): Promise<string>
  /** Resolves with all received bytes, at the end of the connection. */
  ended(): Promise<string>
}

/** Connects, and reads at once unless `paused`. Ends its half when the other side's end is read. */
export async function openWire(
  port: number,
  options: { readonly paused?: boolean; readonly localAddress?: string } = {},
): Promise<Wire> {
  const { localAddress } = options
  const socket = connect({
    port,
    host: '127.0.0.1',
    allowHalfOpen: true,
    ...(localAddress && { localAddress }),
  })
  socket.setNoDelay(true)
  let received = ''
  let over: string | undefined
  socket.on('error', (error: NodeJS.ErrnoException) => {
    over = error.code ?? 'error'
  })
  socket.on('close', () => {
    over ??= 'end'
  })
  socket.on('end', () => {
    socket.end()
  })
  await once(socket, 'connect')
  const read = () => {
    socket.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1')
    })
  }
  if (options.paused !== true) read()
  const matches = (text: string | RegExp) =>
    typeof text === 'string' ? received.includes(text) : text.test(received)
  return {
    socket,
    get received() {
      return received
    },
    get over() {
      return over
    },
    send: (bytes) => {
      socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
    },
    read,
    has: (text) => until(() => (matches(text) ? received : undefined)),
    ended: () => until(() => (over === undefined ? undefined : received)),
  }
}

/** The statuses of all responses in order, also interim ones. */
export function statuses(responses: string): number[] {
  return [...responses.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]))
}

/** The first head's lines in order, names in lower case. */
export function headerLines(response: string): readonly [string, string][] {
  const [head = ''] = response.split('\r\n\r\n')
  return head
    .split('\r\n')
    .slice(1)
    .map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    })
}

/** The value of a header that occurs once, or all challenges of `www-authenticate`; else undefined. */
export function headerOf(response: string, name: string): string | undefined {
  const values = headerLines(response)
    .filter(([given]) => given === name)
    .map(([, value]) => value)
  if (name === 'www-authenticate') return values.length === 0 ? undefined : values.join(' | ')
  return values.length === 1 ? values[0] : undefined
}
