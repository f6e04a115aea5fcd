import { Type } from 'typebox'
import { byName, choice, integer, key, keys, list, TEXT, text } from './key-types.ts'

const HEALTH_CHECK = keys({
  path: text('What is asked for, without a query.', {
    required: true,
    maxLength: 1024,
    examples: ['/healthz'],
  }),
  host: text('The Host of the request. Default: host and port of the target.', {
    maxLength: 255,
    examples: ['bank.example'],
  }),
  intervalMs: integer('From the end of one check to the next, give or take a tenth.', {
    range: [100, 3_600_000],
    default: 5000,
  }),
  timeoutMs: integer('Until the head of the response, connecting included.', {
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
    'Failures in a row that open the breaker; 0: none do. A failure is one of `statuses`, no connection, or no whole response, unless the response was still coming when `timeoutMs` or `totalMs` was over.',
    { range: [0, 10_000], default: 5 },
  ),
  failurePercent: integer('Percentage of failures in the window that opens the breaker.', {
    range: [1, 100],
    examples: [50],
  }),
  windowMs: integer('Time over which the percentage is taken. It slides in tenths.', {
    range: [100, 3_600_000],
    default: 10_000,
  }),
  minRequests: integer('With fewer responses and failures in the window the percentage does not count.', {
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
    'Statuses of responses after which a request is repeated.',
    { minItems: 1, maxItems: 100, uniqueItems: true, default: [502, 503, 504] },
  ),
  budgetPercent: integer('Retries per 100 requests; up to ten are saved, or 10 × `minPerSecond` if more.', {
    range: [0, 100],
    default: 20,
  }),
  minPerSecond: integer('Retries in each second beside the budget.', {
    range: [0, 10_000],
    default: 1,
  }),
  attempts: integer('How often one request may go out again.', { range: [1, 5], default: 1 }),
})

const TLS = keys({
  caFile: text('PEM file of the trusted authorities, instead of those that Node knows.', {
    examples: ['/run/secrets/upstream-ca.pem'],
  }),
  certFile: text(
    "PEM file of the gateway's certificate for upstreams that ask for one, then those up to its authority. Needs `keyFile`.",
    { examples: ['/run/secrets/upstream-client.pem'] },
  ),
  keyFile: text('PEM file of the private key of `certFile`, not encrypted.', {
    examples: ['/run/secrets/upstream-client-key.pem'],
  }),
  serverName: text(
    'The name that is asked for (SNI) and that the certificate must have. Default: the host of each target.',
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
    'One service or several equal ones, written as `upstream`; all of HTTP/1.1 or all of HTTP/2. A request goes to the one with the fewest in flight.',
    { minItems: 1, maxItems: 64, examples: [['http://10.0.0.3:3000', 'http://10.0.0.4:3000']] },
  ),
  healthCheck: key(
    HEALTH_CHECK,
    'A GET request to each target at intervals. A target that is down gets requests only when all are.',
  ),
  breaker: key(
    BREAKER,
    'A target that fails too often gets no requests for a time, then a few as probes. When no target takes any, the response is 503.',
    { examples: [{ failures: 0, failurePercent: 50 }] },
  ),
  retry: key(
    RETRY,
    'GET, HEAD and OPTIONS without a body are repeated when the response has one of `statuses`. Any request is repeated when no target can be connected to.',
    { examples: [{ statuses: [503], budgetPercent: 10 }] },
  ),
  slowStartMs: integer(
    'How long the share of requests of a recovered target grows, from a tenth up to all of it. 0: all at once.',
    { range: [0, 3_600_000], default: 0, examples: [30_000] },
  ),
  maxInFlight: integer(
    'Requests that use the group at once, besides `maxInFlight` of the file for all groups together.',
    { range: [1, 1_000_000], examples: [200] },
  ),
  tls: key(
    TLS,
    'How TLS is spoken with `https://` and `h2://` targets. A change of the files is in force for new connections.',
    { examples: [{ serverName: 'pay.internal', minVersion: 'TLSv1.3' }] },
  ),
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
    'Further services, each a group of equal targets under the name that routes give as `upstream`. `default` is the group with the targets of `upstream`; only its other keys stand here.',
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
