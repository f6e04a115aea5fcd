import type { Socket } from 'node:net'
import type { Commit } from '../audit/commit/commit.ts'
import { NO_CLIENTS } from '../config/clients/clients-file.ts'
import type { Settings } from '../config/settings.ts'
import type { ReceivedRequest } from '../edge/http1/handler.ts'
import { FairPermits } from '../edge/rules/fair-share.ts'
import { PathTable } from '../edge/rules/path-table.ts'
import { responseLines } from '../edge/rules/policy/response-policy.ts'
import { readRequestHeaders } from '../edge/rules/request-headers.ts'
import { Field } from '../edge/syntax/field.ts'
import { Slots } from '../edge/syntax/slots.ts'
import { Exchange, type ServedRoute } from '../exchange.ts'
import type { Gateway, Load } from '../gateway.ts'
import { keysOf, type Principal } from '../principal.ts'

/** The time on both clocks of a hand-made gateway, until a test moves it. */
export const NOW_MS = Date.UTC(2030, 0, 1)
export const PEER = '192.0.2.7'

interface HandMadeRequest {
  readonly method?: string
  readonly target?: string
  readonly version?: '1.0' | '1.1' | '2'
  /** Beside `Host: api.example`, unless `Host` is given. */
  readonly headers?: Readonly<Record<string, string>>
  readonly upgrade?: 'websocket'
  /** True when the whole request has come. */
  readonly complete?: boolean
  /** False when nothing more can be written to the connection. */
  readonly writable?: boolean
}

/** What was done to a response, in order. */
class RecordedResponse {
  keepAlive = true
  headersSent = false
  idleMs: number | undefined = undefined
  readonly calls: string[] = []
  status = 0
  lines = ''
  body = ''
  trailers: string | undefined = undefined
  #onClose: (() => void)[] = []

  onClose(listener: () => void): void {
    this.#onClose.push(listener)
  }

  onDrain(): void {
    this.calls.push('onDrain')
  }

  writeInterim(status: number, lines: string): void {
    this.calls.push(`interim ${status} ${lines}`.trim())
  }

  writeHead({ status, lines }: { readonly status: number; readonly lines: string }): void {
    this.calls.push(`head ${status}`)
    this.status = status
    this.lines = lines
  }

  flushHead(): void {
    this.calls.push('flushHead')
    this.headersSent = true
  }

  write(piece: Buffer): boolean {
    this.calls.push('write')
    this.headersSent = true
    this.body += piece.toString()
    return true
  }

  end(trailers?: string): void {
    this.trailers = trailers
    this.calls.push('end')
  }

  hold(): () => void {
    this.calls.push('hold')
    return () => this.calls.push('release')
  }

  breakOff(): void {
    this.calls.push('breakOff')
  }

  retireConnection(): void {
    this.keepAlive = false
  }

  /** Plays the end of the connection or of the response. */
  close(): void {
    for (const listener of this.#onClose) listener()
  }
}

/** A request as it arrives at the pipeline. */
export function makeArrival(request: HandMadeRequest = {}) {
  const {
    method = 'GET',
    target = '/api/x',
    version = '1.1',
    upgrade,
    complete = true,
    writable = true,
  } = request
  const all = { Host: 'api.example', ...request.headers }
  const fields = Object.entries(all).map(([name, value]) => new Field(name, value))
  const completed = Promise.withResolvers<undefined>()
  const req = {
    socket: { writable } as Socket,
    peer: PEER,
    method,
    target,
    version,
    fields,
    headers: readRequestHeaders(fields, version, 100),
    body: null,
    trailers: [],
    complete,
    network: { name: PEER, isProxy: false },
    whenComplete: () => completed.promise,
  }
  const res = new RecordedResponse()
  return { arrival: { req, res, upgrade } as object as ReceivedRequest, res, completeBody: completed.resolve }
}

/** An exchange as `open` leaves it. Fields that a later stage writes are `-` or `''`. */
export function makeExchange(request: HandMadeRequest = {}) {
  const made = makeArrival(request)
  const exchange = new Exchange({
    ...made.arrival,
    requestId: 'request-1',
    gatewayId: undefined,
    interactionId: undefined,
    timestamp: new Date(NOW_MS).toISOString(),
    startedSteadyMs: NOW_MS,
    address: PEER,
    peer: PEER,
    viaTrustedProxy: false,
  })
  return { ...made, exchange }
}

export function makeRoute(route: Partial<ServedRoute> = {}): ServedRoute {
  return {
    path: '/api/*',
    methods: undefined,
    auth: new Set(['none']),
    scopes: [],
    stepUp: undefined,
    authorizationDetails: undefined,
    decision: undefined,
    mask: undefined,
    maskPath: undefined,
    upstream: 'default',
    timeoutMs: undefined,
    idleTimeoutMs: 1000,
    maxBodyBytes: 100,
    clientCert: false,
    trustIssuers: undefined,
    webhookClient: undefined,
    idempotency: undefined,
    operations: undefined,
    documentedAt: undefined,
    laidAt: undefined,
    screening: undefined,
    isSigned: false,
    signsResponses: false,
    signsRequests: false,
    isShadow: false,
    leniency: undefined,
    cors: undefined,
    sending: undefined,
    forwarded: undefined,
    responseLines: responseLines({}),
    client: { send: noUpstream, speaksHttp2: false },
    permits: undefined,
    jwks: undefined,
    signedTarget: undefined,
    ...route,
  }
}

export function makePrincipal(principal: Partial<Principal> = {}): Principal {
  return {
    method: 'bearer',
    subject: 'user-1',
    client: 'app-1',
    session: undefined,
    sessionName: undefined,
    expiresAtMs: undefined,
    scopes: new Set(['read']),
    scope: 'read',
    ...keysOf('user-1'),
    ...principal,
  }
}

/** A trail in memory. The next records get its `fault` or `commit`, if set. */
class RecordedTrail {
  readonly lines: string[] = []
  fault: Error | undefined = undefined
  commit: Commit | undefined = undefined
  /** Requests that could not be recorded. */
  refused = 0
  readonly unpaid: ((error: Error | undefined) => void)[] = []

  get writable(): boolean {
    return this.fault === undefined
  }

  recheck(): boolean {
    return this.writable
  }

  append(line: string): Error | Commit | undefined {
    if (this.fault !== undefined) {
      this.refused += 1
      return this.fault
    }
    this.lines.push(line)
    return this.commit
  }

  settle(line: string): Commit | undefined {
    this.lines.push(line)
    return this.commit
  }

  settleOnce(_: object, record: () => string): void {
    this.settle(record())
  }

  whenPendingWritten(run: (error: Error | undefined) => void): void {
    this.unpaid.push(run)
  }

  get records(): Record<string, unknown>[] {
    return this.lines.map((line) => JSON.parse(line))
  }
}

interface HandMadeParts extends Omit<Partial<Gateway>, 'settings' | 'load' | 'routes'> {
  readonly settings?: Partial<Settings>
  readonly load?: Partial<Load>
  readonly routes?: readonly ServedRoute[]
  /** Permits for the upstream. */
  readonly maxInFlight?: number
}

/** A gateway that lets everything through and keeps what stages tell it. */
export function makeGateway({
  settings,
  load,
  routes = [makeRoute()],
  maxInFlight = 10,
  ...parts
}: HandMadeParts = {}) {
  const trail = new RecordedTrail()
  const measured: string[] = []
  const logged: (readonly [level: string, line: object, message: string])[] = []
  const log = Object.fromEntries(
    ['debug', 'info', 'warn', 'error'].map((level) => [
      level,
      (line: object, message: string) => logged.push([level, line, message]),
    ]),
  )
  const time = { nowMs: NOW_MS }
  const gateway = {
    settings: {
      allowedFieldNames: new Set(),
      trustedProxies: undefined,
      http2: false,
      via: false,
      responseLines: responseLines({}),
      ...settings,
    },
    clock: () => time.nowMs,
    steadyClock: () => time.nowMs,
    log,
    metrics: recordingMetrics(measured),
    trail,
    routes: new PathTable(routes),
    requestRules: new Map(),
    deciders: new Map(),
    clients: { table: NO_CLIENTS },
    limiter: { find: () => undefined, take: noTake, close: () => {} },
    tls: { trust: undefined },
    revocations: { isSafe: true, isKnown: true, isRevoked: () => false, revoke: () => true },
    loopMark: 'countersign; id=here',
    load: {
      inFlight: new Slots(),
      orphans: new Set(),
      tunnels: { areExhausted: false, take: () => false },
      permits: new FairPermits(maxInFlight),
      phase: 'serving',
      refusalLog: new Map(),
      ...load,
    },
    ...parts,
  } as object as Gateway
  return { gateway, trail, measured, logged, time }
}

function noUpstream(): never {
  throw new Error('no upstream was set for this request')
}

function noTake(): never {
  throw new Error('no limit was set for this request')
}

/** Every use of a metric, as `name argument argument`, without the method of the metric; exchanges are left out. */
function recordingMetrics(measured: string[]): object {
  const record = (name: string | symbol, values: readonly unknown[]) => {
    measured.push([String(name), ...values.filter((value) => typeof value !== 'object')].join(' '))
  }
  const causes = new Map<string, string>()
  const get = (_: object, name: string | symbol) => {
    if (name === 'causes') return causes
    const call = (...values: unknown[]) => record(name, values)
    return Object.assign(call, { count: call, add: call, observe: call })
  }
  return new Proxy({}, { get })
}
