import { connect, type Socket } from 'node:net'

/** A request that was sent. Times are of `performance.now()`. */
export interface Sent {
  readonly path: string
  readonly sentAtMs: number
  readonly doneAtMs: number
  /** 0: the connection broke before a response. */
  readonly status: number
}

export interface LoadOptions {
  /** Ports of ready gateways. A broken connection moves to another port. */
  readonly ports: () => readonly number[]
  readonly connections: number
  readonly path: () => string
  /** The connection's pause after this status, in milliseconds; default none. */
  readonly pauseMs?: (status: number) => number
  readonly onSent: (sent: Sent) => void
}

const RECONNECT_MS = 20

/** Keeps one request under way on each connection. Never sends a request twice. */
export function startLoad(options: LoadOptions): { stop(): Promise<void> } {
  let stopped = false
  const all = Array.from({ length: options.connections }, (_, i) => keepAsking(options, i, () => stopped))
  return {
    stop: async () => {
      stopped = true
      await Promise.all(all)
    },
  }
}

async function keepAsking(options: LoadOptions, index: number, isStopped: () => boolean): Promise<void> {
  for (let turn = 0; !isStopped(); turn++) {
    const ports = options.ports()
    const port = ports[(index + turn) % Math.max(1, ports.length)]
    if (port !== undefined) await askUntilBroken(options, port, isStopped)
    if (!isStopped()) await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS))
  }
}

function askUntilBroken(options: LoadOptions, port: number, isStopped: () => boolean): Promise<void> {
  const { path: nextPath, pauseMs, onSent } = options
  return new Promise((resolve) => {
    let underWay: { path: string; sentAtMs: number } | undefined
    let received = ''
    const socket: Socket = connect({ port, host: '127.0.0.1', noDelay: true })
    socket.setEncoding('latin1')
    const send = () => {
      if (isStopped()) {
        socket.end()
        return
      }
      underWay = { path: nextPath(), sentAtMs: performance.now() }
      socket.write(`GET ${underWay.path} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
    }
    const done = (status: number) => {
      if (underWay === undefined) return
      onSent({ ...underWay, status, doneAtMs: performance.now() })
      underWay = undefined
    }
    socket.on('connect', send)
    socket.on('data', (text: string) => {
      received += text
      if (!isComplete(received)) return
      const status = Number(received.slice(9, 12))
      received = ''
      done(status)
      const ms = pauseMs?.(status) ?? 0
      if (ms > 0) setTimeout(send, ms)
      else send()
    })
    socket.on('error', () => undefined)
    socket.on('close', () => {
      done(0)
      resolve()
    })
  })
}

function isComplete(text: string): boolean {
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return false
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(text.slice(0, end + 2))?.[1]
  if (length === undefined) throw new Error(`a response without a length: ${text.slice(0, 300)}`)
  return text.length >= end + 4 + Number(length)
}

/**
 * The most requests that certainly passed within one window: they were sent after its start and arrived upstream
 * before its end. Requests on the way at either end are left out, so that the number is never too high.
 *
 * @param admitted when each was sent, and when it arrived
 */
export function mostWithin(
  admitted: readonly { readonly sentAtMs: number; readonly arrivedAtMs: number }[],
  windowMs: number,
): number {
  const bySent = [...admitted].sort((a, b) => a.sentAtMs - b.sentAtMs)
  let most = 0
  for (const [i, { sentAtMs: fromMs }] of bySent.entries()) {
    let within = 0
    for (let j = i; j < bySent.length; j++) {
      const { sentAtMs, arrivedAtMs } = bySent[j] as (typeof bySent)[number]
      if (sentAtMs >= fromMs + windowMs) break
      if (arrivedAtMs < fromMs + windowMs) within++
    }
    most = Math.max(most, within)
  }
  return most
}
