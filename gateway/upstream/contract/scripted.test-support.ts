import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { it, type TestContext } from 'node:test'
import { createServer as createTlsServer, type TlsOptions } from 'node:tls'
import type { BreakerSettings } from '../../config/upstreams/upstream-group.ts'
import { fieldsOf } from '../../edge/syntax/field.test-support.ts'
import type { Field } from '../../edge/syntax/field.ts'
import type { UpstreamsOptions } from '../balancing/origin.ts'
import { createUpstreams, type UpstreamClient } from '../create-upstreams.ts'
import type { UpstreamCall, UpstreamFault, UpstreamRequest, UpstreamResponse } from '../upstream-client.ts'
import { serveStreams } from './scripted-streams.test-support.ts'

export interface WireRequest {
  /** Start line and header fields, without the empty line. */
  readonly head: string
  /** As sent, chunk framing included. */
  readonly body: string
  readonly socket: Socket
  /** Which connection it came on, from 1. */
  readonly connection: number
}

/** An upstream that says byte for byte what a test wants. */
export interface ScriptedUpstream {
  readonly url: string
  /** Connections accepted so far. */
  connections: number
  readonly open: Set<Socket>
  /** Open connections, or with HTTP/2 open streams, because a connection outlives them. */
  inUse(): number
  readonly requests: WireRequest[]
  /** Every byte received, over all connections. Requests of HTTP/2 are written as in HTTP/1.1. */
  received: string
  close(): Promise<void>
}

export interface ScriptedOptions {
  /** Called for each whole request. */
  readonly onRequest?: (request: WireRequest) => unknown
  /** Called before anything is read. A socket that it pauses is not read. */
  readonly onConnection?: (socket: Socket, connection: number) => void
  readonly socketPath?: string
  readonly port?: number
  readonly tls?: TlsOptions
}

/** How tests speak to upstreams by default. tls.test.ts and http2.test.ts set this. */
export const transport: { tls: TlsOptions | undefined; http2: boolean } = { tls: undefined, http2: false }

/** A test whose upstream needs the bytes of HTTP/1.1. The tests in upstream/http2/ send frames instead. */
export function itInBytes(title: string, run: (t: TestContext) => Promise<void>): void {
  if (!transport.http2) it(title, run)
}

export async function scriptedUpstream(options: ScriptedOptions): Promise<ScriptedUpstream> {
  const streams = new Set<object>()
  const upstream: ScriptedUpstream = {
    url: '',
    connections: 0,
    open: new Set(),
    inUse: () => (transport.http2 ? streams.size : upstream.open.size),
    requests: [],
    received: '',
    async close() {
      for (const socket of upstream.open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
  const begin = (socket: Socket): number => {
    const connection = ++upstream.connections
    upstream.open.add(socket)
    socket.on('close', () => upstream.open.delete(socket))
    socket.on('error', () => {})
    options.onConnection?.(socket, connection)
    return connection
  }
  const tell = (request: WireRequest): void => {
    upstream.requests.push(request)
    options.onRequest?.(request)
  }
  const acceptHttp2 = (socket: Socket): void => {
    const connection = begin(socket)
    serveStreams(socket, {
      open: streams,
      onBytes: (text) => {
        upstream.received += text
      },
      onRequest: (request) => tell({ ...request, connection }),
    })
  }
  const acceptHttp1 = (socket: Socket): void => {
    const connection = begin(socket)
    let pending = ''
    if (socket.isPaused()) return
    socket.on('data', (chunk: Buffer) => {
      const text = chunk.toString('latin1')
      upstream.received += text
      pending += text
      for (let length = requestLength(pending); length !== undefined; length = requestLength(pending)) {
        const headEnd = pending.indexOf('\r\n\r\n')
        const [head, body] = [pending.slice(0, headEnd), pending.slice(headEnd + 4, length)]
        pending = pending.slice(length)
        tell({ head, body, socket, connection })
      }
    })
  }
  const accept = transport.http2 ? acceptHttp2 : acceptHttp1
  const tls = options.socketPath === undefined ? (options.tls ?? transport.tls) : undefined
  const server = tls === undefined ? createServer(accept) : createTlsServer(tls, accept)
  server.on('tlsClientError', () => {})
  server.on('connection', (socket: Socket) => rawSockets.set(socket.remotePort, socket))
  if (options.socketPath === undefined)
    server.listen({ port: options.port ?? 0, host: '127.0.0.1', backlog: 4096 })
  else server.listen(options.socketPath)
  await once(server, 'listening')
  const scheme = transport.http2 ? 'h2c' : tls === undefined ? 'http' : 'https'
  const url =
    options.socketPath === undefined
      ? `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`
      : `unix:${options.socketPath}`
  return Object.assign(upstream, { url })
}

/** The TCP sockets of all upstreams by the port of their client. */
const rawSockets = new Map<number | undefined, Socket>()

/** Closes a connection by RST, below TLS where there is TLS. */
export function reset(socket: Socket): void {
  rawSockets.get(socket.remotePort)?.resetAndDestroy()
}

/** Length of the first whole request in `text`, if there is one. */
function requestLength(text: string): number | undefined {
  const headEnd = text.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const head = text.slice(0, headEnd).toLowerCase()
  const contentLength = /\r\ncontent-length: (\d+)/.exec(head)?.[1]
  if (contentLength !== undefined) {
    const length = headEnd + 4 + Number(contentLength)
    return text.length >= length ? length : undefined
  }
  if (!head.includes('\r\ntransfer-encoding: chunked')) return headEnd + 4
  const last = text.indexOf('\r\n0\r\n\r\n', headEnd + 2)
  return last < 0 ? undefined : last + 7
}

export function ok(body: string, extra = ''): string {
  return `HTTP/1.1 200 OK\r\n${extra}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
}

/** A circuit breaker that opens with the first failure. */
export const FRAGILE: BreakerSettings = {
  failures: 1,
  failurePercent: undefined,
  windowMs: 10_000,
  minRequests: 20,
  openMs: 5000,
  probes: 1,
  statuses: undefined,
}

export function upstreamsTo(
  urls: readonly string[],
  options: Partial<UpstreamsOptions> = {},
): UpstreamClient {
  return createUpstreams({
    urls,
    connectMs: 60_000,
    headersMs: 20_000,
    maxConnections: 16,
    clock: () => performance.now(),
    onHealth: () => {},
    ...options,
  })
}

/** `headers`: a flat list. */
export type RequestFacts = Partial<Omit<UpstreamRequest, 'fields'>> & { readonly headers?: readonly string[] }

export function requestOf({
  headers = ['host', 'service.test'],
  ...facts
}: RequestFacts = {}): UpstreamRequest {
  return {
    method: 'GET',
    target: '/',
    fields: fieldsOf(headers),
    body: null,
    upgrade: undefined,
    idleMs: 20_000,
    totalMs: 60_000,
    ...facts,
  }
}

export interface Received {
  readonly information: { readonly status: number; readonly headers: readonly string[] }[]
  status: number | undefined
  headers: readonly string[]
  readonly chunks: Buffer[]
  ended: boolean
  fault: UpstreamFault | undefined
  socket: Duplex | undefined
}

interface SentCall {
  readonly call: UpstreamCall
  readonly received: Received
  /** Resolves with all that was received, when the exchange is over. */
  readonly over: Promise<Received>
}

/** Sends a request and checks the contract of the client: the order of the calls, and none after the last. */
export function send(
  upstream: UpstreamClient,
  request: RequestFacts = {},
  onData: (chunk: Buffer, call: UpstreamCall) => boolean = () => true,
): SentCall {
  const received: Received = {
    information: [],
    status: undefined,
    headers: [],
    chunks: [],
    ended: false,
    fault: undefined,
    socket: undefined,
  }
  let returned = false
  let over = false
  const { promise, resolve } = Promise.withResolvers<Received>()
  const expect = (condition: boolean, what: string): void => {
    assert.ok(returned, `${what} came before send returned`)
    assert.ok(!over && condition, `${what} came out of order`)
  }
  const finish = (): void => {
    over = true
    resolve(received)
  }
  const response: UpstreamResponse = {
    isHolding: false,
    information(status, fields) {
      expect(received.status === undefined, 'information')
      received.information.push({ status, headers: flatOf(fields) })
    },
    head(status, fields) {
      expect(received.status === undefined, 'head')
      received.status = status
      received.headers = flatOf(fields)
    },
    data(chunk) {
      expect(received.status !== undefined && chunk.length > 0, 'data')
      received.chunks.push(Buffer.from(chunk))
      return onData(chunk, call)
    },
    end() {
      expect(received.status !== undefined, 'end')
      received.ended = true
      finish()
    },
    upgrade(fields, socket) {
      expect(received.status === undefined, 'upgrade')
      received.headers = flatOf(fields)
      received.socket = socket
      finish()
    },
    fault(fault) {
      expect(true, 'fault')
      received.fault = fault
      finish()
    },
  }
  const call = upstream.send(requestOf(request), response)
  returned = true
  return { call, received, over: promise }
}

export function bodyOf(received: Received): string {
  return Buffer.concat(received.chunks).toString('latin1')
}

/** Resolves when `condition` holds; checks it every millisecond. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 1))
}

export function flatOf(fields: readonly Field[]): string[] {
  return fields.flatMap(({ name, value }) => [name, value])
}

/** A scripted upstream and a client of it; both end with the test. */
export async function pair(t: TestContext, script: ScriptedOptions, options: Partial<UpstreamsOptions> = {}) {
  const scripted = await scriptedUpstream(script)
  const upstream = upstreamsTo([scripted.url], options)
  t.after(async () => {
    await scripted.close()
    await upstream.close()
  })
  return { scripted, upstream }
}
