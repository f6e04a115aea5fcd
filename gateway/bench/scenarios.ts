import { basename } from 'node:path'
import { CALLERS, type TokenAlgorithm } from './bench-tokens.ts'
import type { Contender } from './contender.ts'
import { bytePump } from './contenders/byte-pump.ts'
import { gateway, PAYMENTS_PATH } from './contenders/countersign.ts'
import { haproxy } from './contenders/haproxy.ts'
import { nginx } from './contenders/nginx.ts'
import { nodePeer } from './contenders/node-peer.ts'
import { features, introspecting, signedMessages } from './feature-scenario.ts'
import type { LoadJob, LoadRequest } from './load-job.ts'
import type { OtherGenerator } from './other-generators.ts'
import { gatewaysWithStore, storedEntries } from './store-scenarios.ts'
import {
  HUGE_BYTES,
  HUGE_PATH,
  LARGE_PATH,
  LARGE_RESPONSE_BYTES,
  RESPONSE_BYTES,
} from './upstream-responses.ts'

export interface Entry {
  readonly name: string
  readonly contender: Contender
  /** Added to the gateway's environment. */
  readonly env: Readonly<Record<string, string>>
  /** Processes or isolates that compile hot code, each for itself. */
  readonly programs: number
}

export type ScenarioRequest = Omit<LoadRequest, 'tokensFile'> & { readonly algorithm: TokenAlgorithm }

/** A workload for several contenders in turn. */
export interface Scenario {
  readonly id: string
  readonly title: string
  readonly request: ScenarioRequest
  readonly connections: number
  readonly idleConnections: number
  /** Clients speak TLS. */
  readonly tls: boolean
  readonly upstreamTls: boolean
  readonly renewal?: LoadJob['renewal']
  /** Default: our own. */
  readonly generator?: OtherGenerator
  /** Clients speak HTTP/2, with so many requests at once on a connection. */
  readonly streams?: number
  readonly entries: readonly Entry[]
  /** Entries that, like the first, are compared with all others. */
  readonly references: readonly string[]
  /** True reserves a processor for the contender. */
  readonly pinned: boolean
  /** How often all are started anew for the rounds, because some programs' speed differs from start to start. */
  readonly starts: number
  /** Saturation only; saturation and shares of it, for latency; or rates in requests a second. */
  readonly loads: 'saturation' | 'rates' | readonly number[]
}

/** Rows that decide between this gateway and a C proxy. */
export const TABLE = [
  'main',
  'connections-8',
  'connections-1',
  'connections-512',
  'synced',
  'https',
  'https-upstream',
  'new-connections',
  'new-https',
  'large',
  'huge',
  'cold',
]

const HTTP_PROXY = new URL('./peers/http-proxy.ts', import.meta.url)
const FASTIFY_HTTP_PROXY = new URL('./peers/fastify-http-proxy.ts', import.meta.url)

const CONNECTIONS = 64
const DISTINCT_TOKENS = 20_000
const TRANSFER = JSON.stringify({
  to: 'DE02120300000000202051',
  amountMinor: 12_500,
  currency: 'EUR',
  reference: 'Invoice 2026-1107, second part of three; thank you'.padEnd(213, '.'),
})

const BALANCE: ScenarioRequest = {
  method: 'GET',
  path: '/api/balance',
  body: '',
  algorithm: 'RS256',
  tokens: CONNECTIONS,
  order: 'own',
  responseBytes: RESPONSE_BYTES,
}

const UNLIMITED = { path: '/api/accounts' }
const DISTINCT = { tokens: DISTINCT_TOKENS, order: 'cyclic' } as const
const TRANSFERRING = { method: 'POST', path: '/api/transfer', body: TRANSFER } as const
const HUGE = { path: HUGE_PATH, tokens: 16, responseBytes: HUGE_BYTES }
const UPLOAD = {
  method: 'POST',
  path: HUGE_PATH,
  body: JSON.stringify('x'.repeat(HUGE_BYTES - 2)),
  tokens: 16,
} as const
const LARGE = { path: LARGE_PATH, responseBytes: LARGE_RESPONSE_BYTES }

/**
 * @param trees this gateway's tree, and other versions to compare
 * @param trees.ratelimit the program of envoyproxy/ratelimit
 */
export function scenariosOf(trees: {
  readonly root: string
  readonly against: readonly string[]
  readonly ratelimit: string
}): readonly Scenario[] {
  const own = entry(gateway({ name: 'gateway', root: trees.root }))
  const others = trees.against.map((root) => entry(gateway({ name: `gateway in ${basename(root)}`, root })))
  const common = [own, ...others, entry(haproxy), entry(nginx), entry(bytePump)]
  const every = [
    ...common,
    entry(nodePeer('@fastify/http-proxy', FASTIFY_HTTP_PROXY)),
    entry(nodePeer('http-proxy', HTTP_PROXY)),
    entry(nodePeer('http-proxy-3', HTTP_PROXY)),
  ]
  const one = (id: string, title: string, change: Change): Scenario => ({
    id,
    title,
    connections: CONNECTIONS,
    idleConnections: 0,
    tls: false,
    upstreamTls: false,
    entries: common,
    references: [],
    pinned: true,
    starts: 1,
    loads: 'saturation',
    ...change,
    request: { ...BALANCE, ...change.request },
  })
  const stored = storedEntries({
    own: own.contender,
    others: others.map((one) => one.contender),
    ratelimit: trees.ratelimit,
  })
  const token = common.filter((one) => one.contender.authenticates)
  return [
    one('main', 'GET, RS256 token seen before, limited path', { entries: every }),
    one('latency', 'GET, RS256 token seen before, limited path (repeated)', { loads: 'rates' }),
    one('es256', 'ES256 token seen before', { entries: token, request: { algorithm: 'ES256' } }),
    one('cold', 'RS256, every token new', {
      entries: [...token, introspecting(trees.root)],
      request: DISTINCT,
    }),
    one('callers', '10,000 callers', { request: { tokens: CALLERS, order: 'random' } }),
    one('transfer', 'POST with a body of 300 bytes, limit per hour', { request: TRANSFERRING }),
    one('large', 'Responses of 64 KiB, unlimited path', { request: LARGE }),
    ...connectionsAndBodies(
      one,
      common.filter(({ contender }) => contender !== bytePump),
    ),
    manyConnections(one, trees.root),
    one('tails', 'Latency at fixed rates', { loads: [1000, 3000, 5000] }),
    one('synced', 'Audit trail on the disk before the response (synced)', {
      entries: [...settings(own, 'GATEWAY_AUDIT_DURABILITY', { synced: 'synced' }), ...common.slice(1)],
    }),
    one('unlimited', 'Unlimited path', { request: UNLIMITED }),
    one('idle', '64 busy and 1,000 idle connections', { idleConnections: 1000 }),
    one('store', 'Limits in a shared store, 64 callers', { entries: stored, loads: 'rates' }),
    one('store-callers', 'Limits in a shared store, 10,000 callers, the time of each hit kept', {
      entries: stored,
      request: { path: PAYMENTS_PATH, tokens: CALLERS, order: 'random' },
    }),
    ...onOnePort(one, own.contender),
    ...featureRows(one, trees.root),
    one('audit', 'Durability of the audit trail', {
      entries: settings(own, 'GATEWAY_AUDIT_DURABILITY', DURABILITIES),
    }),
    one('seals', 'Seals of the audit trail', {
      entries: settings(own, 'GATEWAY_AUDIT_SEALS', SEALS),
      loads: 'rates',
    }),
  ]
}

function onOnePort(one: (id: string, title: string, change: Change) => Scenario, own: Contender): Scenario[] {
  const several = gatewaysWithStore(own)
  return [
    one('gateways', 'One, two and four gateways on one port, with one store', several),
    one('gateways-unlimited', 'The same, unlimited path', { ...several, request: UNLIMITED }),
  ]
}

function featureRows(one: (id: string, title: string, change: Change) => Scenario, root: string): Scenario[] {
  return [
    one('features', 'What each feature costs', features(root, TRANSFERRING)),
    one('signed', 'POST of 300 bytes, ES256: signatures and decisions', {
      ...signedMessages(root, TRANSFERRING, { tokens: CONNECTIONS, order: 'own' }),
      request: { ...DISTINCT, algorithm: 'ES256' },
    }),
  ]
}

function manyConnections(
  one: (id: string, title: string, change: Change) => Scenario,
  root: string,
): Scenario {
  // 20,000 open files are too few for HAProxy and the byte pump, and allow the gateway fewer requests at once.
  const additions = { config: { maxInFlight: 2000 } }
  return one('connections-10000', '10,000 connections, one request a second on each', {
    connections: 10_000,
    loads: [10_000],
    entries: [entry(gateway({ name: 'gateway', root, additions })), entry(nginx)],
  })
}

/**
 * The first row in other transports, and with larger bodies.
 *
 * @param servers those that speak HTTP themselves
 */
function connectionsAndBodies(
  one: (id: string, title: string, change: Change) => Scenario,
  servers: readonly Entry[],
): Scenario[] {
  return [
    one('huge', 'Responses of 1 MiB, 16 connections', { request: HUGE, connections: 16 }),
    one('upload', 'Requests of 1 MiB, 16 connections', { request: UPLOAD, connections: 16 }),
    ...[1, 8, 512, 4096].map((connections) =>
      one(`connections-${connections}`, connections === 1 ? 'One connection' : `${connections} connections`, {
        connections,
      }),
    ),
    one('https', 'HTTPS', { tls: true }),
    one('https-upstream', 'HTTPS upstream', { upstreamTls: true }),
    one('new-connections', 'A new connection for each request', { renewal: 'new' }),
    one('new-https', 'A new TLS connection for each request', { renewal: 'new', tls: true }),
    one('resumed-https', 'A new TLS connection for each request, with a resumed TLS session', {
      renewal: 'resumed',
      tls: true,
    }),
    ...[1, 8].map((streams) =>
      one(
        `http2-${streams}`,
        `HTTP/2 over TLS, ${64 / streams} connections with ${streams} at once, h2load`,
        {
          ...HTTP2,
          connections: 64 / streams,
          streams,
          entries: servers,
        },
      ),
    ),
    one('wrk', 'The first row, with the load generator wrk', { generator: 'wrk', request: { tokens: 1 } }),
  ]
}

const HTTP2 = { tls: true, generator: 'h2load', request: { tokens: 1 } } as const
const DURABILITIES = { written: 'written', buffered: 'buffered', synced: 'synced' }
const SEALS = { 'seals on': 'on', 'seals off': 'off' }

/** @param values of one setting by entry name */
function settings(own: Entry, name: string, values: Readonly<Record<string, string>>): Entry[] {
  return Object.entries(values).map(([what, value]) => ({
    ...own,
    name: `gateway, ${what}`,
    env: { [name]: value },
  }))
}

type Change = Partial<Omit<Scenario, 'request'>> & { readonly request?: Partial<ScenarioRequest> }

function entry(contender: Contender): Entry {
  return { name: contender.name, contender, env: {}, programs: 1 }
}
