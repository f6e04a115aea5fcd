import { Type } from 'typebox'
import { byName, choice, integer, key, keys, list, TEXT, text } from './key-types.ts'

const HEALTH_CHECK = keys({
  path: text('Path of the request, without a query.', {
    required: true,
    maxLength: 1024,
    examples: ['/healthz'],
  }),
  host: text('The Host of the request. Default: host and port of the target.', {
    maxLength: 255,
    examples: ['bank.example'],
  }),
  intervalMs: integer('Time from the end of one check to the next, ±10 %.', {
    range: [100, 3_600_000],
    default: 5000,
  }),
  timeoutMs: integer('Time limit for connecting and for the head of the response.', {
    range: [50, 60_000],
    default: 2000,
  }),
  healthyAfter: integer('Good checks in a row after which a target is up again.', {
    range: [1, 100],
    default: 2,
  }),
  unhealthyAfter: integer('Bad checks in a row after which a target is down.', {
    range: [1, 100],
    default: 3,
  }),
  statuses: list(
    Type.Integer({ minimum: 200, maximum: 599 }),
    'The statuses of a good check. A redirect is never followed. Default: every 2xx.',
    { minItems: 1, maxItems: 100, uniqueItems: true, examples: [[200, 204]] },
  ),
})

const BREAKER = keys({
  failures: integer(
    'Failures in a row that open the breaker; 0: none do. A failure is a response with one of `statuses`, a failed connection, or an incomplete response. A response that `timeoutMs` or `totalMs` cut off is no failure.',
    { range: [0, 10_000], default: 5 },
  ),
  failurePercent: integer('The percentage of failures in the window that opens the breaker.', {
    range: [1, 100],
    examples: [50],
  }),
  windowMs: integer('Sliding window for the percentage; it moves in steps of a tenth.', {
    range: [100, 3_600_000],
    default: 10_000,
  }),
  minRequests: integer('With fewer results in the window, the percentage opens nothing.', {
    range: [1, 1_000_000],
    default: 20,
  }),
  openMs: integer('How long the breaker stays open before it lets probes through.', {
    range: [100, 3_600_000],
    default: 5000,
  }),
  probes: integer(
    'Requests that the half-open breaker lets through. When all succeed it closes; when one fails it opens again.',
    { range: [1, 1000], default: 1 },
  ),
  statuses: list(
    Type.Integer({ minimum: 500, maximum: 599 }),
    'The statuses that are failures. Default: every 5xx.',
    { minItems: 1, maxItems: 100, uniqueItems: true, examples: [[502, 503, 504]] },
  ),
})

const RETRY = keys({
  statuses: list(
    Type.Integer({ minimum: 500, maximum: 599 }),
    'Statuses of responses after which a request is sent again.',
    { minItems: 1, maxItems: 100, uniqueItems: true, default: [502, 503, 504] },
  ),
  budgetPercent: integer(
    'Retry budget: retries per 100 requests. Up to ten unused retries are kept, or 10 × `minPerSecond` if that is more.',
    {
      range: [0, 100],
      default: 20,
    },
  ),
  minPerSecond: integer('Retries allowed in each second besides the budget.', {
    range: [0, 10_000],
    default: 1,
  }),
  attempts: integer('How often one request may be sent again.', { range: [1, 5], default: 1 }),
})

const TLS = keys({
  caFile: text("PEM file of the trusted certificate authorities, instead of Node's built-in ones.", {
    examples: ['/run/secrets/upstream-ca.pem'],
  }),
  certFile: text(
    "PEM file of the gateway's client certificate for upstreams, followed by its intermediate certificates. Needs `keyFile`.",
    { examples: ['/run/secrets/upstream-client.pem'] },
  ),
  keyFile: text('PEM file of the private key of `certFile`, not encrypted.', {
    examples: ['/run/secrets/upstream-client-key.pem'],
  }),
  serverName: text(
    "The name for SNI, which the target's certificate must have too. Default: the host of each target.",
    { examples: ['pay.internal'] },
  ),
  minVersion: choice(['TLSv1.2', 'TLSv1.3'], 'The lowest version of TLS.', {
    default: 'TLSv1.2',
  }),
  maxVersion: choice(['TLSv1.2', 'TLSv1.3'], 'The highest version of TLS.', { default: 'TLSv1.3' }),
})

const UPSTREAM_GROUP = keys({
  targets: list(
    TEXT,
    'Addresses of one service or of several equal ones, written as in `upstream`; all HTTP/1.1 or all HTTP/2. A request goes to the target with the fewest open requests.',
    { minItems: 1, maxItems: 64, examples: [['http://10.0.0.3:3000', 'http://10.0.0.4:3000']] },
  ),
  healthCheck: key(
    HEALTH_CHECK,
    'A GET request to each target at intervals. A target that is down gets requests only when all targets are down.',
  ),
  breaker: key(
    BREAKER,
    'Circuit breaker: a target that fails too often gets no requests for a time, then a few as probes. When no target may get requests, the response is 503.',
    { examples: [{ failures: 0, failurePercent: 50 }] },
  ),
  retry: key(
    RETRY,
    'GET, HEAD and OPTIONS without a body are sent again when the response has one of `statuses`. Any request is sent again when no target could be connected to.',
    { examples: [{ statuses: [503], budgetPercent: 10 }] },
  ),
  slowStartMs: integer(
    "Time in which a recovered target's share of requests grows from a tenth to its full share. 0: full share at once.",
    { range: [0, 3_600_000], default: 0, examples: [30_000] },
  ),
  maxInFlight: integer('The most open requests to this group.', { range: [1, 1_000_000], examples: [200] }),
  tls: key(TLS, 'TLS with `https://` and `h2://` targets. Changed files apply to new connections.', {
    examples: [{ serverName: 'pay.internal', minVersion: 'TLSv1.3' }],
  }),
})

export const UPSTREAM_KEYS = {
  upstream: key(
    Type.Unsafe<string | readonly string[]>({
      type: ['string', 'array'],
      minLength: 1,
      minItems: 1,
      items: TEXT,
    }),
    'The service behind the gateway, or several equal ones: http://host:port, https://host:port or unix:/path.sock; for HTTP/2 and gRPC h2c://host:port or h2://host:port.',
    {
      env: 'GATEWAY_UPSTREAM',
      default: 'http://127.0.0.1:3000',
      examples: [
        'http://127.0.0.1:3000',
        'unix:/run/service.sock',
        ['http://10.0.0.1:3000', 'http://10.0.0.2:3000'],
      ],
    },
  ),
  upstreams: key(
    byName(UPSTREAM_GROUP),
    'Further services. Each is a group of equal targets; a route names its group by `upstream`. The group `default` takes its targets from the key `upstream`; its other keys stand here.',
    {
      maxProperties: 256,
      default: {},
      examples: [{ payments: { targets: ['http://10.0.0.3:3000'], healthCheck: { path: '/healthz' } } }],
    },
  ),
  upstreamSecretFile: text(
    'A file with one line of 32 to 256 visible ASCII characters. The service gets this line in X-Gateway-Secret with every request. Read again when it changes.',
    { env: 'GATEWAY_UPSTREAM_SECRET_FILE', examples: ['/run/secrets/gateway'] },
  ),
}
