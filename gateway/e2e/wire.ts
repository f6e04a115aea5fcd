import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { until } from './running-gateway.ts'

/** A client that sends exactly the bytes that a test gives it. */
export interface Wire {
  readonly socket: Socket
  /** Everything received. */
  readonly received: string
  /** How the connection ended: undefined while it is open, `end` after a proper close, else the error's code. */
  readonly over: string | undefined
  send(bytes: string | Buffer): void
  /** Begins to read, when it was opened paused. */
  read(): void
  /** Waits until the received text has `text`. */
  has(text: string | RegExp): Promise<string>
  /** Waits for the end of the connection. @returns everything received */
  ended(): Promise<string>
}

/** Connects, and reads at once unless `paused`. The client's half stays open until the test closes it. */
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

/** The status of every received response in order, interim ones included. */
export function statuses(responses: string): number[] {
  return [...responses.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]))
}

/** The header lines of the first received head in order, names in lower case. */
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

/** The value of a header that occurs exactly once, or once per challenge scheme; else undefined. */
export function headerOf(response: string, name: string): string | undefined {
  const values = headerLines(response)
    .filter(([given]) => given === name)
    .map(([, value]) => value)
  if (name === 'www-authenticate') return values.length === 0 ? undefined : values.join(' | ')
  return values.length === 1 ? values[0] : undefined
}
