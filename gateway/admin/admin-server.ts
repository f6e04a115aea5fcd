import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { isIP, type Socket } from 'node:net'
import { MANDATORY_HEADERS } from '../edge/rules/policy/response-policy.ts'
import { newRequestId } from '../edge/rules/request-id.ts'
import { createServer } from '../edge/syntax/status-codes.ts'

/** The most connections. `connectionRoom` reserves open files for them. */
const MAX_CONNECTIONS = 100
const MAX_AHEAD = 100
/** Places left free while connections are being closed. */
const KEPT_FREE = 10

export function createAdminServer(guard: AdminGuard, routes: readonly AdminRoute[]): Server {
  const table = Map.groupBy(routes, ({ path }) => path)
  const respondTo = async (req: IncomingMessage): Promise<AdminResponse> => {
    const atPath = table.get(req.url?.split('?')[0] ?? '')
    if (atPath === undefined) return text(404, `the paths are ${[...table.keys()].join(', ')}\n`)
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
  // Otherwise Node responds without the mandatory headers.
  server.on('checkExpectation', take)
  server.on('clientError', (_error, socket) => socket.destroy())
  return server
}

/**
 * Keeps room for probes: closes the connection that has been idle longest, or, when few are idle, the oldest. Serves one
 * request per connection in a turn of the loop.
 */
class Places {
  readonly #open = new Set<Socket>()
  readonly #waiting = new Set<Socket>()
  /** Requests that have no response yet, by connection; the first is being served. */
  readonly #ahead = new WeakMap<Socket, (() => void)[]>()

  admit(socket: Socket): void {
    this.#open.add(socket)
    this.#waiting.add(socket)
    socket.once('close', () => {
      this.#open.delete(socket)
      this.#waiting.delete(socket)
    })
    if (this.#open.size <= MAX_CONNECTIONS - KEPT_FREE) return
    const [longest] = this.#waiting.size > KEPT_FREE ? this.#waiting : this.#open
    longest?.destroy()
  }

  take(socket: Socket, res: ServerResponse, serve: () => void): void {
    const ahead = this.#ahead.getOrInsertComputed(socket, () => [])
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
    ...MANDATORY_HEADERS.flat(),
    'X-Request-ID',
    newRequestId(),
  ]
  res.writeHead(status, [...fields, ...(headers ?? [])])
  if (req.method === 'HEAD') res.end()
  else if (typeof body === 'function') body(res)
  else res.end(body)
}

interface GuardOptions {
  /** The address that the listener is bound to, and other names. */
  readonly names: readonly string[]
  /** Undefined: whoever reaches the listener is an operator. */
  readonly token: string | undefined
}

const HOST = /^(?:\[([^\]]*)\]|([^:]*))(?::\d{1,5})?$/
const BEARER = /^Bearer +([\x21-\x7e]+) *$/i
const CHALLENGE = 'Bearer realm="countersign admin"'

/**
 * Refuses requests that a web page sends when an operator visits it. Such requests use another name (DNS rebinding), or
 * name their site (Origin, Sec-Fetch-Site). They carry no credential, because there are no cookies.
 */
export class AdminGuard {
  readonly #names: ReadonlySet<string>
  #digest: Buffer | undefined

  constructor({ names, token }: GuardOptions) {
    this.#names = new Set(names.map((name) => name.toLowerCase()))
    this.#digest = token === undefined ? undefined : digestOf(token)
  }

  replaceToken(token: string): void {
    this.#digest = digestOf(token)
  }

  refuse({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>, access: AdminAccess) {
    if (access === 'anyone') return undefined
    if (isForeign(headers) && !(access === 'page' && method === 'GET' && isNavigation(headers))) {
      return text(403, 'requests of other web pages are refused\n')
    }
    const token = access === 'operator' ? BEARER.exec(headers.authorization ?? '')?.[1] : undefined
    if (token !== undefined && this.#isToken(token)) return undefined
    return this.#refuseName(headers.host) ?? (access === 'operator' ? this.#refuseToken(token) : undefined)
  }

  #isToken(token: string): boolean {
    return this.#digest !== undefined && timingSafeEqual(this.#digest, digestOf(token))
  }

  #refuseName(host = ''): AdminResponse | undefined {
    const [, bracketed, name = ''] = HOST.exec(host) ?? []
    if (bracketed !== undefined ? isIP(bracketed) === 6 : isIP(name) === 4) return undefined
    const lower = name.toLowerCase()
    if (lower === 'localhost' || this.#names.has(lower)) return undefined
    return text(421, 'unknown name in Host: add it to GATEWAY_ADMIN_NAMES, or use an IP address\n')
  }

  #refuseToken(token: string | undefined): AdminResponse | undefined {
    if (this.#digest === undefined) return undefined
    // RFC 6750 section 3: no error code when no credential was given.
    const challenge = token === undefined ? CHALLENGE : `${CHALLENGE}, error="invalid_token"`
    return text(401, 'needs the token of the admin listener\n', ['WWW-Authenticate', challenge])
  }
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

/** True for a request of another web page, which cannot suppress these headers. */
function isForeign(headers: IncomingMessage['headers']): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return true
  const { origin, host = '' } = headers
  // A proxy may speak TLS, so the scheme is not compared.
  return origin !== undefined && origin.replace(/^https?:\/\//, '').toLowerCase() !== host.toLowerCase()
}

/** True when a person followed a link: the other page learns nothing of the response. */
function isNavigation(headers: IncomingMessage['headers']): boolean {
  return headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document'
}

export type AdminAccess =
  /** Load balancers and orchestrators, under any name. */
  | 'anyone'
  /** Browsers that know the listener by one of its names, for pages that say nothing about this gateway. */
  | 'page'
  | 'operator'

export interface AdminResponse {
  readonly status: number
  readonly contentType: string
  /** A function writes the body for as long as it likes. */
  readonly body: string | Buffer | ((res: ServerResponse) => void)
  readonly headers?: readonly string[] | undefined
}

export interface AdminRoute {
  readonly path: string
  /** `GET` also responds to HEAD. */
  readonly method: 'GET' | 'POST'
  readonly access: AdminAccess
  /** A rejection or an exception becomes 500. */
  readonly respond: (req: IncomingMessage) => AdminResponse | Promise<AdminResponse>
}

export function text(status: number, body: string, headers?: readonly string[]): AdminResponse {
  return { status, contentType: 'text/plain; charset=utf-8', body, headers }
}
