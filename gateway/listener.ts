import { createServer, IncomingMessage, type Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Exchange } from './exchange.ts'
import type { Gateway } from './gateway.ts'
import { readStartLine } from './http/start-line.ts'
import { isWebSocketUpgrade } from './http/websocket.ts'
import { handle, handleUnparsed, interrupt } from './pipeline.ts'
import { type Refusal, refusal } from './refusals.ts'

/** The parser's own bound on a request's head; it answers 431. */
const MAX_HEADER_BYTES = 16 * 1024
/** How often Node looks for requests whose time has run out. */
const TIMEOUT_CHECK_MS = 1000
/** Requests that may wait behind one that is being answered on the same connection; beyond it the connection goes. */
const MAX_PIPELINED = 128

/**
 * One downstream connection. Requests that a client pipelines are taken one after the other: started side by side, two
 * transfers could be carried out in the wrong order (RFC 9112 section 9.3.2).
 */
interface Connection {
  current: Exchange | undefined
  /** A request has been parsed on it. */
  used: boolean
  /** The parser has given up on it: what still comes is not looked at. */
  failed: boolean
  readonly waiting: (() => Exchange)[]
}

const CONNECTIONS = new WeakMap<Duplex, Connection>()

/**
 * The public listener: every way in which Node hands over a request, or fails to, ends in the pipeline, so that every
 * answer has its headers, its audit pair and its metric.
 */
export function createListener(gateway: Gateway): Server {
  const { timeouts } = gateway.settings
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    // Checked by admit, whose answer has our headers.
    requireHostHeader: false,
    insecureHTTPParser: false,
    headersTimeout: timeouts.requestHeadersMs,
    requestTimeout: timeouts.requestMs,
    keepAliveTimeout: timeouts.keepAliveMs,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
    // Any other Upgrade is a hop-by-hop header of an ordinary request.
    shouldUpgradeCallback: isWebSocketUpgrade,
  })
  // Node drops the headers beyond its bound in silence; admit counts them all and answers 431.
  server.maxHeadersCount = 0
  const begin = (req: IncomingMessage, res: ServerResponse) => take(gateway, req, res)
  server.on('request', begin)
  server.on('checkContinue', begin)
  server.on('checkExpectation', begin)
  server.on('connect', (req, socket) => begin(req, responseOn(req, socket as Socket)))
  server.on('upgrade', (req, socket, head) => {
    if (head.length > 0) socket.unshift(head)
    begin(req, responseOn(req, socket as Socket))
  })
  server.on('clientError', (error: ParserError, socket) => fail(gateway, error, socket as Socket))
  return server
}

function take(gateway: Gateway, req: IncomingMessage, res: ServerResponse): void {
  const connection = connectionOf(req.socket)
  connection.used = true
  if (connection.waiting.length >= MAX_PIPELINED) req.socket.destroy()
  turn(connection, res, () => handle(gateway, req, res))
}

/** Runs `start` now, or when the exchanges before it on the connection have ended. */
function turn(connection: Connection, res: ServerResponse, start: () => Exchange): void {
  const run = () => {
    const exchange = start()
    if (exchange.req.socket.destroyed) return exchange
    connection.current = exchange
    res.once('close', () => next(connection))
    return exchange
  }
  if (connection.current === undefined) run()
  else connection.waiting.push(run)
}

/** A connection that has gone leaves requests that were never begun: each still has its audit pair. */
function next(connection: Connection): void {
  connection.current = undefined
  while (connection.current === undefined) {
    const start = connection.waiting.shift()
    if (start === undefined) return
    start()
  }
}

function connectionOf(socket: Duplex): Connection {
  let connection = CONNECTIONS.get(socket)
  if (connection === undefined) {
    connection = { current: undefined, used: false, failed: false, waiting: [] }
    CONNECTIONS.set(socket, connection)
  }
  return connection
}

/** A response on a socket that Node has taken from its own machinery: CONNECT, an upgrade, a parser error. */
function responseOn(req: IncomingMessage, socket: Socket): ServerResponse {
  // Node has removed its own listener, and an error without one ends the process.
  socket.on('error', () => socket.destroy())
  const res = new ServerResponse(req)
  res.shouldKeepAlive = false
  res.assignSocket(socket)
  res.once('finish', () => {
    res.detachSocket(socket)
    socket.destroySoon()
    res.emit('close')
  })
  return res
}

interface ParserError extends Error {
  readonly code?: string
  /** The bytes in which the parser found the error. */
  readonly rawPacket?: Buffer
}

/** A request that the parser gave up on, or whose time ran out before it was whole. */
function fail(gateway: Gateway, error: ParserError, socket: Socket): void {
  const connection = connectionOf(socket)
  if (connection.failed) return
  // Nobody has asked for anything: a port scan, a health check that only connects, a client that is gone.
  if (error.code === 'ECONNRESET' || !socket.writable || socket.bytesRead === 0) {
    socket.destroy()
    return
  }
  connection.failed = true
  const refused = refusalOf(error)
  const { current } = connection
  if (current !== undefined && !current.req.complete) {
    interrupt(gateway, current, refused)
    return
  }
  const { method, path } = readStartLine(connection.used ? undefined : error.rawPacket)
  const start = () => {
    const req = unparsedRequest(socket, method)
    return handleUnparsed(gateway, { req, res: responseOn(req, socket), path, refused })
  }
  if (current === undefined) start()
  else connection.waiting.push(start)
}

function refusalOf(error: ParserError): Refusal {
  if (error.code === 'HPE_HEADER_OVERFLOW') return refusal('headers_too_large')
  if (error.code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') return refusal('body_too_large')
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return refusal('request_timeout')
  return refusal('malformed_request', { cause: error.code ?? error.message })
}

/** Stands for a request that never became one. */
function unparsedRequest(socket: Socket, method: string): IncomingMessage {
  const req = new IncomingMessage(socket)
  req.method = method
  req.httpVersion = '1.1'
  req.httpVersionMajor = 1
  req.httpVersionMinor = 1
  return req
}
