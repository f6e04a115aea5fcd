import { Type } from 'typebox'
import {
  bytes,
  choice,
  flag,
  integer,
  key,
  keys,
  list,
  milliseconds,
  networks,
  span,
  text,
} from './key-types.ts'

const ON_STORE_FAILURE = keys({
  deadlineMs: integer(
    'How long a request waits for the store. After that the store counts as away until it responds again.',
    { range: [1, 10_000], default: 25 },
  ),
  replays: choice(
    ['deny', 'local'],
    '`deny`: webhooks and DPoP proofs get 503, because another gateway may have accepted them. `local`: only what this gateway has accepted counts.',
    { default: 'deny' },
  ),
  revocations: choice(
    ['local', 'deny'],
    '`local`: tokens are accepted unless this gateway knows that their session has ended. `deny`: access tokens are refused with 503.',
    { default: 'local' },
  ),
})

const ADDRESS_RATE = keys({
  requests: integer('Requests that are let pass.', {
    range: [1, 1_000_000_000],
    required: true,
    examples: [1000],
  }),
  window: span('smh', 'In s, m or h, at most 24h. It slides.', { required: true, examples: ['10s'] }),
})

const LIMITS = keys({
  onJournalFailure: choice(
    ['unready', 'degraded'],
    'What becomes of requests under limits of an hour and more while their journal cannot be written. unready: 503 limits_unavailable, and /readyz is red. degraded: they are counted in memory.',
    { restart: true, default: 'unready' },
  ),
})

const TIMEOUTS = keys({
  connectMs: milliseconds('Until the connection to the upstream stands.', { default: 2000 }),
  headersMs: milliseconds("From the request's end to the upstream's answer.", { default: 30_000 }),
  bodyIdleMs: milliseconds(
    'Silence in an exchange: the upstream sends or takes nothing, the client takes nothing of the response, or neither side of a tunnel sends anything. A route may set `idleTimeoutMs`.',
    { default: 300_000 },
  ),
  totalMs: milliseconds(
    'The whole exchange with the upstream. A route may set `timeoutMs`. Default: as long as something moves.',
    { examples: [60_000] },
  ),
  handshakeMs: milliseconds("Until the TLS handshake of a client's connection is complete.", {
    restart: true,
    default: 5000,
  }),
  requestHeadersMs: milliseconds("Until the header of a client's request is complete.", { default: 10_000 }),
  requestMs: milliseconds(
    "Until the body of a client's request is complete. Default: as long as it keeps the minimum rate.",
    { examples: [60_000] },
  ),
  bodyGraceMs: milliseconds(
    "How long a client's request body may be silent, and how far it may fall behind the minimum rate, while the gateway reads it.",
    { default: 20_000 },
  ),
  minBodyBytesPerSecond: integer(
    "Minimum rate of a client's request body, after the grace; a slower one is refused with 408. 0: only silence of `bodyGraceMs` ends the request.",
    { range: [0, 1_000_000_000], default: 500 },
  ),
  keepAliveMs: milliseconds('How long an idle connection of a client is kept.', { default: 65_000 }),
  drainGraceMs: integer(
    'After SIGTERM: how long the gateway still serves, though not ready, before its listeners close. SIGINT skips it.',
    { env: 'GATEWAY_DRAIN_GRACE_MS', range: [0, 86_400_000], default: 2000 },
  ),
  drainMs: milliseconds(
    "After `drainGraceMs`, and at a restart: how long open requests and tunnels may go on. Both times and half a second must fit the orchestrator's deadline.",
    { default: 6000 },
  ),
})

export const TRAFFIC_KEYS = {
  onStoreFailure: key(
    ON_STORE_FAILURE,
    'What the gateway does without the shared store (GATEWAY_STORE). Rows of limits.json have their own `onStoreFailure`.',
    { default: {}, examples: [{ replays: 'local' }] },
  ),
  addressRate: key(
    ADDRESS_RATE,
    'How many requests one address may send in the window, counted before a route is looked up; more get 429 and the connection is closed. Default: any number.',
  ),
  limits: key(LIMITS, 'How the limits of limits.json are kept.', {
    default: {},
    examples: [{ onJournalFailure: 'degraded' }],
  }),
  dataDir: text('Where the gateway keeps what must survive a restart, relative to the working directory.', {
    env: 'GATEWAY_DATA_DIR',
    restart: true,
    default: 'data',
    examples: ['data', '/var/lib/countersign'],
  }),
  logLevel: choice(
    ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
    'The least important line of the log that is written.',
    { env: 'GATEWAY_LOG_LEVEL', default: 'info' },
  ),
  logFormat: choice(
    ['ecs', 'otlp'],
    'The form of the log: Elastic Common Schema, or OpenTelemetry. Default: text in a terminal, else JSON.',
    { env: 'GATEWAY_LOG_FORMAT', restart: true },
  ),
  trustedProxies: networks(
    'Addresses (IPv4 or IPv6) and networks (CIDR) that are believed about how a request came: Forwarded and X-Forwarded-For, -Proto, -Host, -Port, -Prefix, -By, -Scheme, -Server and -Ssl. Never about who calls.',
    { default: [], examples: [['10.0.0.0/8', 'fd00::/8', '192.0.2.7']] },
  ),
  clientCertProxies: networks(
    "Addresses and networks of proxies that end TLS and name the client's certificate in `Client-Cert` (RFC 9440), which they must remove from requests of clients. On routes with `clientCert` it goes upstream; to the gateway it proves nobody.",
    { default: [], examples: [['192.0.2.7']] },
  ),
  allowedFieldNames: list(
    Type.String({ minLength: 1, maxLength: 256 }),
    'Exact names of request headers that pass although they hold other characters than letters, digits and hyphens. None may be one that services could take for a protected name.',
    { uniqueItems: true, maxItems: 100, default: [], examples: [['My_Old_Header']] },
  ),
  via: flag(
    'Whether the gateway adds itself to `Via` upstream (RFC 9110 section 7.6.3). Some servers stop compressing when they see it.',
    { default: false },
  ),
  interactionId: flag(
    "Whether every request has an `x-fapi-interaction-id`: the client's if it is a UUID, else a new one. Service, response and both audit records have it. Default: `true` where an issuer has the profile `fapi`.",
    { examples: [true] },
  ),
  maxTunnels: integer('WebSocket tunnels open at once; one more gets 503. 0: none is let through.', {
    range: [0, 1_000_000],
    default: 1024,
    examples: [256],
  }),
  maxInFlight: integer(
    'Requests that use the upstream at once; one more gets 503. One address alone gets at most three quarters.',
    { range: [1, 1_000_000], default: 1024 },
  ),
  maxHeaderBytes: integer(
    "Bytes that a request's line and headers may have together; more gets 431. Long tokens (`tokens.maxChars`) need room here. Edits hold for new connections.",
    { range: [16_384, 65_536], default: 16_384 },
  ),
  maxHeaderFields: integer('Headers that a request may have; more get 431. Edits hold for new connections.', {
    range: [100, 256],
    default: 100,
  }),
  maxBodyBytes: bytes("Bytes that a request's body may have; more gets 413. A route may give its own.", {
    default: 1_048_576,
  }),
  timeouts: key(TIMEOUTS, 'Bounds on time, in milliseconds unless the name says otherwise.', {
    default: {},
    examples: [{ bodyIdleMs: 300_000 }],
  }),
}
