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
    '`deny`: webhooks and DPoP proofs get 503, because another gateway may have accepted them. `local`: they are refused only if this gateway has accepted them.',
    { default: 'deny' },
  ),
  revocations: choice(
    ['local', 'deny'],
    '`local`: tokens are accepted unless this gateway knows that their session has ended. `deny`: access tokens are refused with 503.',
    { default: 'local' },
  ),
})

const ADDRESS_RATE = keys({
  requests: integer('The most requests of an address in the window.', {
    range: [1, 1_000_000_000],
    required: true,
    examples: [1000],
  }),
  window: span('smh', 'A sliding window, in s, m or h, at most 24h.', { required: true, examples: ['10s'] }),
})

const LIMITS = keys({
  onJournalFailure: choice(
    ['unready', 'degraded'],
    'What happens to requests under limits of an hour and more while their counts cannot be written to disk. `unready`: they get 503 limits_unavailable, and /readyz fails. `degraded`: they are counted in memory.',
    { restart: true, default: 'unready' },
  ),
})

const TIMEOUTS = keys({
  connectMs: milliseconds('Time limit for connecting to the upstream.', { default: 2000 }),
  headersMs: milliseconds("Time limit from the end of the request to the head of the upstream's response.", {
    default: 30_000,
  }),
  bodyIdleMs: milliseconds(
    'Longest time in which the upstream sends or takes nothing, the client reads nothing of the response, or neither side of a tunnel sends anything. A route may set `idleTimeoutMs` instead.',
    { default: 300_000 },
  ),
  totalMs: milliseconds(
    'Time limit for the whole exchange with the upstream. A route may set `timeoutMs` instead. Default: none.',
    { examples: [60_000] },
  ),
  handshakeMs: milliseconds('Time limit for the TLS handshake with a client.', {
    restart: true,
    default: 5000,
  }),
  requestHeadersMs: milliseconds("Time limit for the header of a client's request.", { default: 10_000 }),
  requestMs: milliseconds(
    "Time limit for a client's request, from its first byte to its last. Default: only the minimum rate of the body counts.",
    { examples: [60_000] },
  ),
  bodyGraceMs: milliseconds(
    "Longest silence of a client's request body, and its longest delay against the minimum rate. Pauses in the gateway's own reading do not count.",
    { default: 20_000 },
  ),
  minBodyBytesPerSecond: integer(
    "Minimum rate of a client's request body after `bodyGraceMs`; a slower one gets 408. 0: only a silence of `bodyGraceMs` ends the request.",
    { range: [0, 1_000_000_000], default: 500 },
  ),
  keepAliveMs: milliseconds('How long an idle connection of a client is kept.', { default: 65_000 }),
  drainGraceMs: integer(
    'Time after SIGTERM in which the gateway still accepts requests, while /readyz fails, before its listeners close. SIGINT skips this time.',
    { env: 'GATEWAY_DRAIN_GRACE_MS', range: [0, 86_400_000], default: 2000 },
  ),
  drainMs: milliseconds(
    "Time in which open requests and tunnels may end, after `drainGraceMs` or at a restart. Both keys plus half a second must be shorter than the orchestrator's deadline.",
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
  limits: key(LIMITS, 'What happens when counts of limits.json cannot be kept.', {
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
    'The lowest level of log lines that are written.',
    { env: 'GATEWAY_LOG_LEVEL', default: 'info' },
  ),
  logFormat: choice(
    ['ecs', 'otlp'],
    'The form of the log: Elastic Common Schema, or OpenTelemetry. Default: text in a terminal, else JSON.',
    { env: 'GATEWAY_LOG_FORMAT', restart: true },
  ),
  trustedProxies: networks(
    'Addresses (IPv4 or IPv6) and networks (CIDR) of proxies whose Forwarded and X-Forwarded-For, -Proto, -Host, -Port, -Prefix, -By, -Scheme, -Server and -Ssl the gateway trusts. It trusts no header of theirs that names the user.',
    { default: [], examples: [['10.0.0.0/8', 'fd00::/8', '192.0.2.7']] },
  ),
  clientCertProxies: networks(
    "Addresses and networks of proxies that end TLS and send the client's certificate in `Client-Cert` (RFC 9440). They must remove this header from clients' requests. On routes with `clientCert` the gateway forwards it; it does not authenticate anybody by it.",
    { default: [], examples: [['192.0.2.7']] },
  ),
  allowedFieldNames: list(
    Type.String({ minLength: 1, maxLength: 256 }),
    'Exact names of request headers that pass although they have characters other than letters, digits and hyphens. Not allowed: names that services could take for a protected name.',
    { uniqueItems: true, maxItems: 100, default: [], examples: [['My_Old_Header']] },
  ),
  via: flag(
    'Whether the gateway adds itself to `Via` upstream (RFC 9110 section 7.6.3). Some servers do not compress responses to requests with `Via`.',
    { default: false },
  ),
  interactionId: flag(
    "Whether every request has an `x-fapi-interaction-id`: the client's if it is a UUID, else a new one. Service, response and both audit records have it. Default: `true` where an issuer has the profile `fapi`.",
    { examples: [true] },
  ),
  maxTunnels: integer('The most WebSocket tunnels open at once; one more gets 503. 0: no tunnels.', {
    range: [0, 1_000_000],
    default: 1024,
    examples: [256],
  }),
  maxInFlight: integer(
    'The most open requests to services, all groups together; one more gets 503. One address alone gets at most three quarters.',
    { range: [1, 1_000_000], default: 1024 },
  ),
  maxHeaderBytes: integer(
    'The most bytes of request line and headers together; more get 431. Allow for long tokens (`tokens.maxChars`). Edits apply to new connections.',
    { range: [16_384, 65_536], default: 16_384 },
  ),
  maxHeaderFields: integer('The most headers of a request; more get 431. Edits apply to new connections.', {
    range: [100, 256],
    default: 100,
  }),
  maxBodyBytes: bytes("The most bytes of a request's body; more get 413.", {
    default: 1_048_576,
  }),
  timeouts: key(TIMEOUTS, 'Time limits, in milliseconds unless the name says otherwise.', {
    default: {},
    examples: [{ bodyIdleMs: 300_000 }],
  }),
}
