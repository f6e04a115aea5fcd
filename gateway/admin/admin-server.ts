import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { MANDATORY_HEADERS } from '../edge/rules/mandatory-headers.ts'
import { newRequestId } from '../edge/rules/request-id.ts'
import { createServer } from '../edge/syntax/status-codes.ts'
import type { AdminGuard } from './admin-guard.ts'
import { type AdminResponse, type AdminRoute, text } from './admin-route.ts'

/** The process's own open files: see `connectionRoom`. */
const MAX_CONNECTIONS = 100
/** Requests that a connection may send ahead of its responses. */
const MAX_AHEAD = 100
/** So many are free for who connects at the same moment, while others are being closed. */
const KEPT_FREE = 10

interface Parts {
  readonly routes: readonly AdminRoute[]
  readonly guard: AdminGuard
}

export function createAdminServer({ routes, guard }: Parts): Server {
  const table = Map.groupBy(routes, ({ path }) => path)
  const respondTo = async (req: IncomingMessage): Promise<AdminResponse> => {
    const atPath = table.get(req.url?.split('?')[0] ?? '')
    if (atPath === undefined) return text(404, `there are ${[...table.keys()].join(', ')}\n`)
    const method = req.method === 'HEAD' ? 'GET' : req.method
    const route = atPath.find((one) => one.method === method)
    if (route === undefined) return notAllowed(atPath)
    return guard.refuse(req, route.access) ?? route.respond(req)
  }
  const server = createServer({ requireHostHeader: false })
  const places = new Places()
  const serve = (req: IncomingMessage, res: ServerResponse) => {
    respondTo(req).then(
      (made) => send(req, res, made),
      (fault: unknown) => send(req, res, text(500, `${String(fault)}\n`)),
    )
  }
  const take = (req: IncomingMessage, res: ServerResponse) => {
    places.take(req.socket, res, () => serve(req, res))
  }
  server.maxConnections = MAX_CONNECTIONS
  server.on('connection', (socket) => places.admit(socket))
  server.on('request', take)
  // Otherwise Node responds itself, without the mandatory headers.
  server.on('checkExpectation', take)
  server.on('clientError', (_error, socket) => socket.destroy())
  return server
}

/**
 * Keeps room for probes: the connection that has waited longest makes room, and one request of each connection is served in a
 * turn of the event loop.
 */
class Places {
  readonly #open = new Set<Socket>()
  readonly #waiting = new Set<Socket>()
  /** Requests of each connection that have no response yet; the first is being served. */
  readonly #ahead = new WeakMap<Socket, (() => void)[]>()

  admit(socket: Socket): void {
    this.#open.add(socket)
    this.#waiting.add(socket)
    socket.once('close', () => {
      this.#open.delete(socket)
      this.#waiting.delete(socket)
    })
    if (this.#open.size <= MAX_CONNECTIONS - KEPT_FREE) return
    const [longest] = this.#waiting
    longest?.destroy()
  }

  take(socket: Socket, res: ServerResponse, serve: () => void): void {
    const ahead = this.#ahead.get(socket) ?? []
    this.#ahead.set(socket, ahead)
    this.#waiting.delete(socket)
    if (ahead.length > MAX_AHEAD) socket.destroy()
    if (socket.destroyed) return
    res.once('close', () => this.#over(socket, ahead))
    if (ahead.push(serve) === 1) serve()
  }

  #over(socket: Socket, ahead: (() => void)[]): void {
    ahead.shift()
    if (!this.#open.has(socket)) return
    const [next] = ahead
    if (next === undefined) this.#waiting.add(socket)
    else setImmediate(next)
  }
}

function notAllowed(routes: readonly AdminRoute[]): AdminResponse {
  const allowed = routes.map(({ method }) => (method === 'GET' ? 'GET, HEAD' : method)).join(', ')
  return text(405, `only ${allowed}\n`, ['Allow', allowed])
}

function send(
  req: IncomingMessage,
  res: ServerResponse,
  { status, contentType, body, headers }: AdminResponse,
): void {
  const length = typeof body === 'function' ? [] : ['Content-Length', String(Buffer.byteLength(body))]
  const fields = [
    'Content-Type',
    contentType,
    ...length,
    ...MANDATORY_HEADERS,
    'X-Request-ID',
    newRequestId(),
  ]
  res.writeHead(status, [...fields, ...(headers ?? [])])
  if (req.method === 'HEAD') res.end()
  else if (typeof body === 'function') body(res)
  else res.end(body)
}
