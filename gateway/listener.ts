import { createServer, IncomingMessage, type Server, type ServerOptions, ServerResponse } from 'node:http'
import { createServer as createSecureServer, type Server as SecureServer } from 'node:https'
import type { Socket } from 'node:net'
import { Connection } from './connection.ts'
import type { Gateway } from './gateway.ts'
import { readStartLine } from './http/start-line.ts'
import { isWebSocketUpgrade } from './http/websocket.ts'
import { handle, handleUnparsed } from './pipeline.ts'
import { type Refusal, refusal } from './refusals.ts'
import { listenerOptions, type TlsMaterial } from './tls/context.ts'

/** The parser's own bound on a request's head; it answers 431. */
const MAX_HEADER_BYTES = 16 * 1024
/** How often Node looks for requests whose time has run out. */
const TIMEOUT_CHECK_MS = 1000

const CONNECTIONS = new WeakMap<Socket, Connection>()

/**
 * The public listener: every way in which Node hands over a request, or fails to, ends in the pipeline, so that every
 * answer has its headers, its audit pair and its metric.
 */
export function createListener(gateway: Gateway): Server {
  return attach(gateway, createServer(httpOptions(gateway)))
}

/** The same behind TLS. `setSecureContext` puts another certificate in force, for connections to come. */
export function createSecureListener(gateway: Gateway, material: TlsMaterial): SecureServer {
  const server = createSecureServer({ ...httpOptions(gateway), ...listenerOptions(material) })
  server.on('secureConnection', (socket) => {
    // TLS knows no reset, and Node throws. Without a close_notify the client sees as well that something is missing.
    socket.resetAndDestroy = () => socket.destroy()
  })
  closeHandshakesAsIdle(server)
  return attach(gateway, server)
}

/** A connection still in its handshake has asked for nothing: it goes when the idle ones go, so no drain waits for it. */
function closeHandshakesAsIdle(server: SecureServer): void {
  const handshakes = new Map<string, Socket>()
  const nameOf = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`
  server.on('connection', (socket: Socket) => {
    const name = nameOf(socket)
    handshakes.set(name, socket)
    socket.once('close', () => handshakes.delete(name))
  })
  server.on('secureConnection', (socket) => handshakes.delete(nameOf(socket)))
  const closeIdle = server.closeIdleConnections.bind(server)
  server.closeIdleConnections = () => {
    closeIdle()
    for (const socket of handshakes.values()) socket.destroy()
  }
}

function httpOptions(gateway: Gateway): ServerOptions {
  const { timeouts } = gateway.settings
  return {
    maxHeaderSize: MAX_HEADER_BYTES,
    // Checked by admit, whose answer has our headers.
    requireHostHeader: false,
    insecureHTTPParser: false,
    headersTimeout: timeouts.requestHeadersMs,
    requestTimeout: timeouts.requestMs,
    keepAliveTimeout: timeouts.keepAliveMs,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
    shouldUpgradeCallback: (req) => upgrades(gateway, req),
  }
}

function attach<S extends Server | SecureServer>(gateway: Gateway, server: S): S {
  // Node drops the headers beyond its bound in silence; admit counts them all and answers 431.
  server.maxHeadersCount = 0
  server.timeout = longestSilenceMs(gateway)
  // A client may close its half when it has asked, and still gets its answer. Node's types do not know the name.
  Object.assign(server, { httpAllowHalfOpen: true })
  const begin = (req: IncomingMessage, res: ServerResponse) => take(gateway, req, res)
  server.on('request', begin)
  server.on('checkContinue', begin)
  server.on('checkExpectation', begin)
  server.on('connect', (req) => takeOver(gateway, req, undefined))
  server.on('upgrade', (req, socket, head) => {
    if (head.length > 0) socket.unshift(head)
    takeOver(gateway, req, 'websocket')
  })
  server.on('clientError', (error: ParserError, socket) => fail(gateway, error, socket as Socket))
  return server
}

/**
 * A connection on which nothing moves for longer than anything may take has a client that does not read: what is left
 * for it would stay in our memory for ever.
 */
function longestSilenceMs({ settings }: Gateway): number {
  const { routes, timeouts } = settings
  return Math.max(timeouts.requestMs, ...routes.map((route) => route.timeoutMs)) + 2 * TIMEOUT_CHECK_MS
}

function connectionOf(gateway: Gateway, socket: Socket): Connection {
  let connection = CONNECTIONS.get(socket)
  if (connection === undefined) {
    connection = new Connection(gateway, socket)
    CONNECTIONS.set(socket, connection)
  }
  return connection
}

/** Node asks this about a request that names Upgrade in its Connection header; otherwise it stays an ordinary one. */
function upgrades(gateway: Gateway, req: IncomingMessage): boolean {
  const connection = connectionOf(gateway, req.socket)
  // Behind another exchange the socket is not free yet.
  if (isWebSocketUpgrade(req) && connection.idle) return true
  connection.keptOrdinary = req
  return false
}

function take(gateway: Gateway, req: IncomingMessage, res: ServerResponse): void {
  const connection = connectionOf(gateway, req.socket)
  // Node's parser loses what comes in one packet with such a request, and would take up in the middle of the next one.
  if (connection.keptOrdinary === req) res.shouldKeepAlive = false
  connection.take({ req, begin: (refused) => handle(gateway, { req, res, upgrade: undefined }, refused) })
}

/** A request that Node does not answer with its own machinery: its response is made when the socket is free for it. */
function takeOver(gateway: Gateway, req: IncomingMessage, upgrade: 'websocket' | undefined): void {
  // Node has removed its own listener, and an error without one ends the process. The close that follows is heard.
  req.socket.on('error', () => {})
  connectionOf(gateway, req.socket).take({
    req,
    begin: (refused) => handle(gateway, { req, res: responseOn(req), upgrade }, refused),
  })
}

/** The last response on a connection, outside of Node's own machinery: CONNECT, an upgrade, a parser error. */
function responseOn(req: IncomingMessage): ServerResponse {
  const { socket } = req
  const res = new ServerResponse(req)
  res.shouldKeepAlive = false
  if (!socket.destroyed) res.assignSocket(socket)
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
  // Beside HTTP, or before there was any: there is nobody to answer.
  if (error.code?.startsWith('ERR_SSL_') || inHandshake(socket)) {
    socket.destroy()
    return
  }
  const connection = connectionOf(gateway, socket)
  if (connection.failed) return
  connection.failed = true
  // Nobody has asked for anything: a port scan, a health check that only connects, a client that is gone.
  if (error.code === 'ECONNRESET' || socket.bytesRead === 0) {
    socket.destroy()
    return
  }
  // Nothing that comes after `Connection: close`, the client's or ours, is a request.
  if (error.code === 'HPE_CLOSED_CONNECTION' || !socket.writable) return
  const gone = error.code === 'HPE_INVALID_EOF_STATE'
  const refused = refusalOf(error)
  const broken = gone ? 'gone' : refused
  if (connection.breakLatest(broken)) return
  const { method, path } = readStartLine(connection.used ? undefined : error.rawPacket)
  const req = unparsedRequest(socket, method)
  const begin = () => handleUnparsed(gateway, { req, res: responseOn(req), path, refused })
  connection.take(gone ? { req, begin, broken } : { req, begin })
}

/** Node's types do not know the name. */
function inHandshake(socket: Socket): boolean {
  return 'secureConnecting' in socket && socket.secureConnecting === true
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
