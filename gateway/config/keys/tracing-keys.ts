import { type Static, Type } from 'typebox'
import { byName, choice, integer, key, keys, share, text } from './key-types.ts'
import { SECRET } from './shared-keys.ts'

const TRACING = keys({
  endpoint: text(
    'The URL to which spans are posted as OTLP in JSON. Environment: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT; or OTEL_EXPORTER_OTLP_ENDPOINT, to which /v1/traces is added.',
    { examples: ['http://127.0.0.1:4318/v1/traces'] },
  ),
  headers: key(
    Type.Unsafe<Readonly<Record<string, Static<typeof SECRET>>>>({
      ...byName(SECRET),
      writeOnly: true,
      propertyNames: {
        pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
        patternErrorMessage: 'must have the names of header fields as its keys',
      },
    }),
    'Headers of each post, such as a key. Each value is in an environment variable or a file of one line. Environment: OTEL_EXPORTER_OTLP_HEADERS.',
    { maxProperties: 32, default: {}, examples: [{ Authorization: { file: '/run/secrets/otlp' } }] },
  ),
  caFile: text(
    "PEM: the authorities that may have issued the endpoint's certificate. Default: those that Node knows. Environment: OTEL_EXPORTER_OTLP_CERTIFICATE.",
    { examples: ['/run/tls/collector-ca.pem'] },
  ),
  compression: choice(['none', 'gzip'], 'Compresses posts. Environment: OTEL_EXPORTER_OTLP_COMPRESSION.', {
    default: 'none',
  }),
  timeoutMs: integer('How long a post with its response may take. Environment: OTEL_EXPORTER_OTLP_TIMEOUT.', {
    range: [1, 600_000],
    default: 10_000,
  }),
  ratio: share(
    'The share of requests without a `traceparent` that get spans. Environment: OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG.',
    { default: 1, examples: [0.1] },
  ),
  parents: choice(
    ['all', 'trusted', 'none'],
    "Whose `traceparent` decides whether a request gets spans: everybody's (`all`), that of trustedProxies (`trusted`) or nobody's (`none`). For other requests `ratio` decides.",
    { default: 'all' },
  ),
  delayMs: integer(
    'How long a span waits for others to be posted with it. Environment: OTEL_BSP_SCHEDULE_DELAY.',
    { range: [1, 600_000], default: 1000, examples: [5000] },
  ),
  maxQueue: integer(
    'How many spans of about 1 KiB may wait; more are dropped and counted. Environment: OTEL_BSP_MAX_QUEUE_SIZE.',
    { range: [128, 65_536], default: 2048, examples: [8192] },
  ),
  serviceName: text('`service.name` of the resource. Default: countersign. Environment: OTEL_SERVICE_NAME.', {
    maxLength: 256,
    examples: ['payments-gateway'],
  }),
  resource: key(
    byName(Type.String({ maxLength: 1024 })),
    'Further attributes of the resource. Environment: OTEL_RESOURCE_ATTRIBUTES.',
    { maxProperties: 64, default: {}, examples: [{ 'deployment.environment.name': 'production' }] },
  ),
})

export const TRACING_KEYS = {
  tracing: key(
    TRACING,
    "Where tracing spans are sent. OpenTelemetry's variables override single keys. Default: nowhere.",
    { restart: true, examples: [{ endpoint: 'http://127.0.0.1:4318/v1/traces', ratio: 0.1 }] },
  ),
}
