import { type Static, type TSchema, Type } from 'typebox'
import { AUTHORIZATION_DETAILS, DECISION } from './decision-keys.ts'
import { IDEMPOTENCY } from './idempotency-keys.ts'
import {
  anyText,
  byName,
  bytes,
  choice,
  flag,
  integer,
  key,
  keys,
  list,
  milliseconds,
  span,
  TEXT,
  text,
} from './key-types.ts'
import { ADDRESSES, MAINTENANCE, ROUTE_RESPONSE_HEADERS } from './policy-keys.ts'
import { SENDING_KEYS } from './sending-keys.ts'
import { SCOPE } from './shared-keys.ts'

const AUTH = Type.Enum(['none', 'bearer', 'mtls', 'hmac', 'signature'])

const CORS = keys({
  origins: list(
    Type.String({ minLength: 1, maxLength: 300 }),
    'Allowed origins: scheme, host and, if any, port, as in Origin. `https://*.app.example` allows every host below app.example, `http://localhost:*` every port. `*` allows every origin, without credentials.',
    {
      required: true,
      minItems: 1,
      maxItems: 1000,
      uniqueItems: true,
      examples: [['https://app.example', 'https://*.app.example'], ['*']],
    },
  ),
  credentials: flag('Whether pages may send cookies and client certificates. Not with `*`.', {
    default: false,
  }),
  methods: list(
    TEXT,
    'The methods of the route that pages may use. Default: all; where the route has no `methods`, GET, HEAD, POST, PUT, PATCH and DELETE.',
    { minItems: 1, maxItems: 40, uniqueItems: true, examples: [['GET', 'POST']] },
  ),
  headers: list(Type.String({ minLength: 1, maxLength: 256 }), 'Request headers that pages may send.', {
    maxItems: 100,
    uniqueItems: true,
    default: ['Authorization', 'Content-Type', 'DPoP', 'Idempotency-Key', 'X-Request-ID'],
    examples: [['Authorization', 'Content-Type']],
  }),
  exposedHeaders: list(
    Type.String({ minLength: 1, maxLength: 256 }),
    'Response headers that scripts may read.',
    {
      maxItems: 100,
      uniqueItems: true,
      default: [
        'DPoP-Nonce',
        'Idempotency-Replayed',
        'Link',
        'Location',
        'RateLimit',
        'RateLimit-Policy',
        'Retry-After',
        'WWW-Authenticate',
        'X-Request-ID',
      ],
      examples: [['RateLimit', 'X-Request-ID']],
    },
  ),
  maxAgeSeconds: integer('How long browsers remember the response to a preflight.', {
    range: [0, 86_400],
    default: 600,
  }),
})

const ROUTE = keys({
  path: text(
    'An exact path; a template, in which `{name}` stands for any one segment or a part of one (`{id}.json`); or a prefix that ends in `/*`. `/x/*` covers everything below /x, but not /x itself.',
    { required: true, maxLength: 1024, examples: ['/api/login', '/api/users/{id}', '/api/users/*', '/*'] },
  ),
  methods: list(
    TEXT,
    'The allowed methods; others get 405. GET includes HEAD. CONNECT and TRACE are never allowed. Default: all other methods registered with IANA (so not PURGE and SUBSCRIBE).',
    { minItems: 1, maxItems: 40, uniqueItems: true, examples: [['GET'], ['GET', 'POST']] },
  ),
  auth: list(
    AUTH,
    'The accepted credentials: `bearer` is an access token of an issuer; `mtls` a client certificate, `hmac` a signed webhook and `signature` a signed request (RFC 9421) of a client in config/clients.json. With `none`, alone or in the list, a request without a credential passes. A presented credential must be valid. Of several, only the first is checked, in the order token, webhook, signature, certificate.',
    {
      required: true,
      minItems: 1,
      uniqueItems: true,
      examples: [['bearer'], ['bearer', 'mtls'], ['hmac'], ['none']],
    },
  ),
  scopes: list(
    Type.Unsafe<string | readonly string[]>({
      ...SCOPE,
      type: ['string', 'array'],
      items: SCOPE,
      minItems: 1,
      uniqueItems: true,
    }),
    'The caller must have all of these scopes; in a list of lists, all of one list. Otherwise 403. Default: none.',
    {
      uniqueItems: true,
      default: [],
      examples: [['transfers:write'], [['transfers:write', 'accounts:read'], ['admin']]],
    },
  ),
  acr: list(
    Type.String({
      maxLength: 256,
      pattern: '^[\\x21\\x23-\\x5B\\x5D-\\x7E]+$',
      patternErrorMessage: 'must be visible ASCII without spaces, double quotes and backslashes',
    }),
    '`acr` of the token must be one of these. Otherwise 401 tells the client what is needed (RFC 9470).',
    { minItems: 1, maxItems: 32, uniqueItems: true, examples: [['urn:example:psd2:sca']] },
  ),
  maxAuthAge: span(
    'smhd',
    'How long ago the user may have signed in (`auth_time` of the token), plus `clockTolerance`. After that, or without the claim, the client gets 401 (RFC 9470), and a tunnel ends.',
    { examples: ['5m'] },
  ),
  upstream: text('The group of `upstreams` that requests go to.', {
    default: 'default',
    examples: ['payments'],
  }),
  timeoutMs: milliseconds(
    'Time limit for a tunnel or an exchange with the upstream. Default: `timeouts.totalMs`, if set.',
    { examples: [5000] },
  ),
  idleTimeoutMs: milliseconds(
    'How long either side of an exchange, or both sides of a tunnel, may be silent. Default: `timeouts.bodyIdleMs`.',
    { examples: [60_000] },
  ),
  maxBodyBytes: bytes("The most bytes of a request's body. Default: the top-level `maxBodyBytes`.", {
    examples: [65_536],
  }),
  validateRequests: choice(
    [true, false, 'skip-patterns'],
    'Whether requests must fit the operation of `openapi` with the same path and method. Default: `openapi.validateRequests`, which explains the values. If that is false, no row can turn validation on.',
  ),
  trustIssuers: list(
    TEXT,
    'The issuers whose tokens the row accepts, by the names of `issuer` and `issuers`. Default: all.',
    { minItems: 1, maxItems: 65, uniqueItems: true, examples: [['https://bank.example']] },
  ),
  webhookClient: text(
    "The client in config/clients.json that sends webhooks to this row, for senders without `X-API-Key`. Needs `hmac` in `auth`. Default: `X-API-Key` names the client's key.",
    { maxLength: 256, examples: ['acme'] },
  ),
  signatures: key(
    keys(
      {
        request: choice(
          ['required'],
          'Each request must also be signed by its client, as `signature` in clients.json says. Default: it need not.',
        ),
        response: flag('Whether responses are signed with the key of `signing`. Default: no.', {
          examples: [true],
        }),
        upstream: flag('Whether requests to the service are signed with the key of `signing`. Default: no.', {
          examples: [true],
        }),
      },
      { minProperties: 1 },
    ),
    'Signatures (RFC 9421) beside another credential. Default: none. More in docs/use/signatures.md.',
    { examples: [{ request: 'required', response: true }] },
  ),
  authorizationDetails: key(
    AUTHORIZATION_DETAILS,
    'One of the `authorization_details` of the token (RFC 9396) must fit the JSON body, which is held in memory (1 MiB at most); otherwise 403. Not where `auth` has `none` or lacks `bearer`, or `mode` is `shadow`. More in docs/use/decisions.md.',
    { examples: [{ type: 'payment_initiation', match: { '/instructedAmount/amount': '/amount' } }] },
  ),
  decision: key(
    DECISION,
    'A decider (AuthZEN Authorization API 1.0) is asked about each request. A request that it does not allow gets 403; without a decision it gets 503. Not where `auth` has `none` or `mode` is `shadow`. More in docs/use/decisions.md.',
    { examples: [{ url: 'https://decider.example/access/v1/evaluation', body: ['/amount'] }] },
  ),
  mask: list(
    TEXT,
    'Parameters of the path that audit trail, spans and log show as `{name:<16 hexadecimal digits>}`, an HMAC-SHA-256 of the value under `maskKeyFile`.',
    { minItems: 1, uniqueItems: true, examples: [['iban']] },
  ),
  clientCert: flag(
    "Whether the service gets the caller's valid client certificate in `Client-Cert` (RFC 9440).",
    { default: false },
  ),
  mode: choice(
    ['enforce', 'shadow'],
    '`shadow`: authentication and authorization are only counted and logged; they refuse nobody. Requests are not validated. All other rules apply.',
    { default: 'enforce' },
  ),
  addresses: key(
    ADDRESSES,
    'Which client addresses may use the route; the top-level `addresses` applies too. Default: all.',
    {
      examples: [{ allow: ['10.0.0.0/8'], deny: ['10.6.6.6'] }],
    },
  ),
  maintenance: key(MAINTENANCE, 'As the top-level `maintenance`, which is the default.'),
  cors: key(
    CORS,
    "Which pages of other origins may use the route. The gateway answers preflights, before authentication, and its Access-Control-* headers replace the service's. Default: the service's headers pass.",
  ),
  responseHeaders: key(
    ROUTE_RESPONSE_HEADERS,
    "Headers for the route's responses. Each key replaces that of the top-level `responseHeaders`, which is the default.",
    { minProperties: 1, examples: [{ referrerPolicy: 'no-referrer' }] },
  ),
  idempotency: key(
    IDEMPOTENCY,
    'A request with an idempotency key reaches the service once; a repeated request gets the first response again. Not where `auth` has `none`, `mode` is `shadow`, or the upstream group uses HTTP/2. Default: the key goes to the service like any header. More in docs/use/idempotency.md.',
    { examples: [{}, { required: true, keep: '7d' }] },
  ),
  ...SENDING_KEYS,
  encodedSlashes: flag(
    'Whether `%2F` may be in the path, as in `/npm/@scope%2Fname`. A path is refused if its decoded form belongs to another row or limit, or has a dot segment.',
    { default: false },
  ),
  pathParameters: flag(
    'Whether `;` may be in the path. A path is refused if its form without parameters belongs to another row or limit, or has a dot segment.',
    { default: false },
  ),
  underscoreNames: flag(
    'Whether names of request headers may have `_`. A name that services could take for a protected one, such as `X_Auth_Subject`, is removed.',
    { default: false },
  ),
})

const { auth: _auth, scopes: _scopes, ...OF_OPERATIONS } = ROUTE.properties

/** A row of `openapi.rows`: the keys of `routes` except `auth` and `scopes`, without defaults. */
const OPERATION_ROW = Type.Unsafe<
  Pick<Static<typeof ROUTE>, 'path'> & Partial<Omit<Static<typeof ROUTE>, 'auth' | 'scopes'>>
>(
  keys({
    ...Object.fromEntries(
      Object.entries(OF_OPERATIONS).map(([name, schema]) => [name, withoutDefault(schema)]),
    ),
    path: OF_OPERATIONS.path,
  }),
)

function withoutDefault({ default: preset, ...schema }: TSchema & { readonly default?: unknown }): TSchema {
  const examples = typeof preset === 'boolean' ? [!preset] : [preset]
  return Type.Optional(preset === undefined ? schema : { examples, ...schema })
}

export const OPENAPI = keys({
  file: text('The document. References in it are followed within the document only.', {
    required: true,
    examples: ['./api.json'],
  }),
  basePath: anyText('Text before every path of the document. Default: the path of its first server.', {
    pattern: '^(/[^?#]*)?$',
    patternErrorMessage: 'must be a path such as "/v1", or empty',
    examples: ['/v1', ''],
  }),
  schemes: key(
    byName(AUTH),
    "The credential for each security scheme of the document, by the scheme's name. Not needed for HTTP bearer, OAuth 2.0 and OpenID Connect (`bearer`), and mutual TLS (`mtls`).",
    { default: {}, examples: [{ webhook: 'hmac' }] },
  ),
  auth: list(
    AUTH,
    'The credentials for operations without `security`, if the document has none either. Default: such an operation is a fault.',
    { minItems: 1, uniqueItems: true, examples: [['bearer']] },
  ),
  validateRequests: choice(
    [true, false, 'skip-patterns'],
    'Whether parameters and JSON bodies of requests must fit the schemas of the document; others get 400. `skip-patterns`: a `pattern` that cannot be matched in bounded time is not checked; otherwise it is a fault.',
    { default: false },
  ),
  rows: list(
    OPERATION_ROW,
    'Further keys for the operations of the document. `path` is the path of an operation, with the base path, or a prefix that ends in `/*`. The other keys are those of `routes`, except `auth` and `scopes`. If two rows have the same key, the more specific row counts.',
    { maxItems: 10_000, examples: [[{ path: '/v1/*', timeoutMs: 5000 }]] },
  ),
})

export const ROUTE_KEYS = {
  openapi: key(
    Type.Unsafe<string | Static<typeof OPENAPI>>({ ...OPENAPI, type: ['string', 'object'], minLength: 1 }),
    'An OpenAPI 3.0, 3.1 or 3.2 document in JSON or YAML, read again when it changes. Its operations become rows, with the credentials of their `security`.',
    { examples: ['./api.json', { file: './api.json', validateRequests: true }] },
  ),
  routes: list(
    ROUTE,
    'The requests that are let through; others get 404. The row with the most specific path applies. An exact path comes first, then the template or prefix with more text before its first `{` or `*`. On a tie the template applies. Required without `openapi`.',
    { maxItems: 10_000, default: [] },
  ),
}
