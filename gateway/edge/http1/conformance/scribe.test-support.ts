import assert from 'node:assert/strict'
import type { ClientTimeouts } from '../connection-deadline.ts'
import type { ConnectionPhase } from '../connection-terms.ts'
import { Connections, type ServerTerms } from '../connections.ts'
import type { Handler, OutgoingResponse, ReceivedRequest } from '../handler.ts'
import { createHttpServer, type HttpServer } from '../http-server.ts'
import type { IncomingRequest } from '../incoming-request.ts'
import { Wire } from './wire.test-support.ts'

interface Refused {
  readonly code: string
  /** In words. */
  readonly cause: string
}

/** What a request says, and only that. */
interface Said {
  readonly method: string
  readonly target: string
  readonly version: string
  /** Flat list: name, value, as received. */
  readonly headers: readonly string[]
  /** Why the whole request is unacceptable: a fault of its framing or of a field. */
  readonly refusal: Refused | undefined
}

/** Copies the facts of a request, so that tests do not depend on `IncomingRequest`. */
export function said(req: IncomingRequest): Said {
  const { method, target, version, fields } = req
  const { fault } = req.headers
  const refusal = fault && { code: fault.code, cause: fault.detail }
  const headers = fields.flatMap(({ name, value }) => [name, value])
  return { method, target, version, headers, refusal }
}

/** One request that has been begun, and what has become of it so far. */
export interface Seen extends Said {
  readonly res: OutgoingResponse
  readonly upgrade: string | undefined
  readonly body: IncomingRequest['body']
  /** The body that was read. */
  text: string
  /** True when no byte of it is missing. */
  whole: boolean
  /** Why the body, or its rest, will not come. */
  fault: string | undefined
  cause: string
  /** How often the listener of `onClose` was called. */
  closes: number
}

/** What a test does with a request. Default: `begun` responds after the body, `refused` at once. */
export interface Acts {
  begun?(seen: Seen): void
  refused?(seen: Seen): void
}

interface Scribe extends Handler<Seen> {
  /** All requests, in the order in which they were begun. */
  readonly seen: Seen[]
  /** Numbers of requests that were never begun, as reported to `abandoned`. */
  readonly left: number[]
}

/** A handler that records everything. */
export function scribe({ begun = readAndRespond, refused = respondEmpty }: Acts = {}): Scribe {
  const seen: Seen[] = []
  const left: number[] = []
  const note = ({ req, res, upgrade }: ReceivedRequest, refusal: Refused | undefined): Seen => {
    const facts = said(req)
    const { code: fault, cause = '' } = refusal ?? facts.refusal ?? {}
    const { body } = req
    const one: Seen = { ...facts, res, upgrade, body, text: '', whole: false, fault, cause, closes: 0 }
    seen.push(one)
    res.onClose(() => {
      one.closes += 1
    })
    if (fault === undefined) begun(one)
    else refused(one)
    return one
  }
  return {
    seen,
    left,
    abandoned: (_peer, requests) => left.push(requests),
    begin: (received, fault) => note(received, fault),
    unreadable: (received, fault) => note(received, fault),
    interrupt(one, { code, cause }) {
      one.fault = code
      one.cause = cause
      refused(one)
    },
  }
}

/** Reads the body as it comes. */
export function readThrough(seen: Seen, whole: () => void): void {
  const done = () => {
    seen.whole = true
    whole()
  }
  if (seen.body === null) {
    done()
    return
  }
  seen.body.on('data', (piece: Buffer) => {
    seen.text += piece.toString('latin1')
  })
  seen.body.once('end', done)
}

function readAndRespond(seen: Seen): void {
  readThrough(seen, () => respondEmpty(seen))
}

/** Responds without a body: 200, or 400 to a refused request. */
export function respondEmpty({ res, fault }: Seen): void {
  respond(res, { status: fault === undefined ? 200 : 400 })
}

export interface GivenResponse {
  readonly status?: number
  readonly body?: string
  /** False if the length is not announced. */
  readonly bounded?: boolean
}

/** Responds in one go, without Date, so that the bytes are always the same. */
export function respond(
  res: OutgoingResponse,
  { status = 200, body = '', bounded = true }: GivenResponse = {},
): void {
  const lines = bounded ? `Content-Length: ${body.length}\r\n` : ''
  res.writeHead({ status, lines, contentLength: bounded ? body.length : undefined, dated: true })
  res.write(Buffer.from(body, 'latin1'))
  res.end()
}

export const TIMEOUTS: ClientTimeouts = {
  headersMs: 10_000,
  requestMs: 30_000,
  keepAliveMs: 5000,
  // So long that only tests of the pace meet it.
  bodyPace: { graceMs: 1e9, minBytesPerSecond: 0 },
  idleMs: 60_000,
}

/** Which phase may follow which, and when. Tests fail on any other transition. */
export const TRANSITIONS: Readonly<
  Record<ConnectionPhase, Readonly<Partial<Record<ConnectionPhase, string>>>>
> = {
  idle: {
    idle: 'the client is still taking its last response when the keep-alive time is over',
    head: 'the first byte of a request has come',
    lingering: 'the client has closed its half',
    detached: 'another process goes on with the connection',
  },
  head: {
    detached: 'another process goes on with the connection',
    body: 'the head is complete and announces a body',
    response: 'the head is complete and announces no body',
    'last response': 'the head is malformed or late, or leaves in doubt where the next request begins',
  },
  body: {
    response: 'the body is complete',
    'last response':
      'the body is malformed or late, or the client is gone and this response was to be the last',
    lingering: 'the response was written before the body was complete',
  },
  response: {
    idle: 'the response is written',
    'last response': 'the client is gone and this response was to be the last',
    lingering: 'the response is written and was the last one, or the client has closed its half',
    detached: 'the protocol was switched, or another process goes on with the connection',
  },
  'last response': {
    'last response': 'the client is gone',
    lingering: 'the response is written',
  },
  lingering: {},
  detached: {},
}

/** The transitions of all connections so far, as `from -> to`. */
export const transitionsSeen = new Set<string>()

function checkTransition(from: ConnectionPhase, to: ConnectionPhase): void {
  assert.ok(TRANSITIONS[from][to] !== undefined, `${from} -> ${to} is in the table of transitions`)
  transitionsSeen.add(`${from} -> ${to}`)
}

/** Time stands still unless a test gives another clock. */
export function connectionsOf(
  handler: Handler<Seen>,
  terms: Partial<ServerTerms<Seen>> = {},
): Connections<Seen> {
  return new Connections({
    handler,
    timeouts: TIMEOUTS,
    head: { maxBytes: 16_384, maxFields: 100 },
    clock: () => 0,
    steadyClock: () => 0,
    maxConnections: 1000,
    handshakeMs: 5000,
    isProxy: () => false,
    onPhase: checkTransition,
    ...terms,
  })
}

/** A server with this handler. */
export function serverOf(
  handler: Handler<Seen>,
  steadyClock: () => number = () => 0,
  timeouts: Partial<ClientTimeouts> = {},
  maxConnections = 1000,
): HttpServer {
  const terms = { timeouts: { ...TIMEOUTS, ...timeouts }, steadyClock, maxConnections }
  return createHttpServer(connectionsOf(handler, terms))
}

/** One more connection to a server, without a network. */
export function wireTo({ server }: HttpServer, address?: string): Wire {
  const wire = new Wire(address)
  server.emit('connection', wire)
  return wire
}
