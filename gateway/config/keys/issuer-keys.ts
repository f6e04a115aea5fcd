import { Type } from 'typebox'
import { choice, flag, integer, key, keys, list, span, TEXT, text, type Written } from './key-types.ts'
import { SCOPE, SPAN_OR_OFF } from './shared-keys.ts'
import { TOKENS } from './token-keys.ts'

const ALGORITHMS = Type.Array(Type.Enum(['ES256', 'PS256', 'EdDSA', 'Ed25519', 'RS256']), {
  minItems: 1,
  uniqueItems: true,
})
const PROFILE = Type.Enum(['fapi'])
const AUDIENCE = Type.Unsafe<string | readonly string[]>({
  type: ['string', 'array'],
  minLength: 1,
  minItems: 1,
  maxItems: 16,
  uniqueItems: true,
  items: TEXT,
})
const INTROSPECTION = keys({
  url: text('The introspection endpoint of the issuer: https, or http on this machine.', {
    required: true,
    examples: ['https://login.example/oauth2/introspect'],
  }),
  clientId: text('The client id of the gateway at the issuer.', {
    required: true,
    maxLength: 256,
    examples: ['countersign'],
  }),
  clientSecretFile: text(
    'A file with the secret of the client, in one line. The gateway proves itself by it (`client_secret_basic`).',
    { examples: ['/run/secrets/introspection'] },
  ),
  keyFile: text(
    'A file with a private key in PEM: P-256, Ed25519 or RSA. The gateway proves itself by assertions that it signs (`private_key_jwt`: ES256, EdDSA, PS256), or with `certFile` by the certificate. Either this or `clientSecretFile` is needed.',
    { examples: ['/run/secrets/introspection.key'] },
  ),
  certFile: text('A file with the certificate of `keyFile` in PEM (`tls_client_auth`, RFC 8705).', {
    examples: ['/run/secrets/introspection.crt'],
  }),
  for: choice(
    ['opaque', 'all'],
    '`opaque`: asks about all tokens but JWTs of trusted issuers. `all`: also about the JWTs of this issuer.',
    { default: 'opaque' },
  ),
  cache: key(
    SPAN_OR_OFF,
    'How long an active token is not asked about again, at most 5m, and never beyond its `exp`; `off` asks each time. A revoked token passes meanwhile.',
    { default: '30s', examples: ['10s', 'off'] },
  ),
  negativeCache: key(
    SPAN_OR_OFF,
    'How long a token that is not active is not asked about again, at most 5m; `off` asks each time.',
    { default: '5s', examples: ['off'] },
  ),
  timeoutMs: integer('How long an answer may take. After that the request gets 503.', {
    range: [50, 30_000],
    default: 2000,
  }),
  signed: flag('Whether only answers that the issuer has signed are believed (RFC 9701).', {
    default: false,
  }),
})

export type WrittenIntrospection = Written<typeof INTROSPECTION>

const TERMS = {
  introspection: key(
    INTROSPECTION,
    'How the issuer is asked about its opaque tokens (RFC 7662). A row may trust only one issuer with `introspection`.',
    {
      examples: [
        {
          url: 'https://login.example/oauth2/introspect',
          clientId: 'countersign',
          clientSecretFile: '/run/secrets/introspection',
        },
      ],
    },
  ),
  tokens: key(
    TOKENS,
    'How the issuer writes its access tokens: a preset, or an object whose keys replace those of its `preset`. Default: `rfc9068`, the only one under the profile `fapi`.',
    { examples: ['entra', { preset: 'keycloak', maxLifetime: '30h' }] },
  ),
  clockTolerance: span(
    'smh',
    "How far the issuer's clock and that of the gateway may be apart, at most 60s, for `exp`, `nbf`, `iat` and `auth_time` (FAPI 2.0 section 5.3.2.1).",
    { default: '10s', examples: ['30s'] },
  ),
}

const ISSUER = keys({
  issuer: text('Exactly the `iss` that its tokens carry.', {
    required: true,
    maxLength: 256,
    examples: ['https://partner.example'],
  }),
  jwksUri: text('Where the issuer publishes its keys.', {
    required: true,
    examples: ['https://partner.example/jwks.json'],
  }),
  audience: key(AUDIENCE, 'The `aud` that its tokens must carry: its name for this API, or one of a list.', {
    required: true,
    examples: ['https://bank.example/api'],
  }),
  algorithms: key(ALGORITHMS, 'As `algorithms` of the file.', { examples: [['PS256', 'EdDSA']] }),
  profile: key(PROFILE, 'As `profile` of the file.', { examples: ['fapi'] }),
  ...TERMS,
  scopes: list(
    SCOPE,
    'What its tokens may permit. Other scopes in them are dropped: they count for no route and do not go upstream.',
    { maxItems: 100, uniqueItems: true, default: [], examples: [['accounts:read']] },
  ),
})

const DPOP = keys({
  nonce: choice(
    ['off', 'required'],
    '`required`: a proof must have a nonce that the gateway gave out in the last two minutes.',
    { default: 'off' },
  ),
  publicUrls: list(
    TEXT,
    'The URLs that clients know the gateway by, with the path that a proxy takes off. Proofs are compared with them, never with Host. Default: scheme, host and port of the issuer.',
    { minItems: 1, uniqueItems: true, examples: [['https://api.bank.example']] },
  ),
})

const AUTH_THROTTLE = keys({
  failures: integer('Bad credentials that an address may send; 0: any number.', {
    range: [0, 1000],
    default: 20,
    examples: [20, 0],
  }),
  window: span('smh', 'In s, m or h, at most 24h. It slides.', { default: '1m' }),
})

export const ISSUER_KEYS = {
  issuer: text(
    'Whose tokens are accepted: exactly the `iss` they carry. The default is the demonstration; a warning is logged when routes accept its bearer tokens.',
    { env: 'GATEWAY_ISSUER', default: 'http://localhost:8080', examples: ['https://bank.example'] },
  ),
  jwksUri: text(
    'Where the issuer publishes its keys. Default: the first http or https upstream + /.well-known/jwks.json.',
    { env: 'GATEWAY_JWKS_URI', examples: ['https://bank.example/.well-known/jwks.json'] },
  ),
  audience: key(AUDIENCE, 'The `aud` that tokens must carry, or one of a list. Default: the issuer + /api.', {
    env: 'GATEWAY_AUDIENCE',
    examples: ['https://bank.example/api', ['api://payments', 'https://bank.example/api']],
  }),
  algorithms: key(
    ALGORITHMS,
    "What the issuer's tokens may be signed by. `Ed25519` and `EdDSA` are one algorithm. Default: all; under the profile `fapi` all but RS256.",
    { examples: [['ES256']] },
  ),
  profile: key(
    PROFILE,
    '`fapi`: the FAPI 2.0 Security Profile. Tokens must be bound to a DPoP key or a client certificate, RS256 is refused, and keys come over https.',
    { examples: ['fapi'] },
  ),
  ...TERMS,
  issuers: list(
    ISSUER,
    'Further issuers. The keys of one never verify the token of another. Their users, clients and sessions are known as `<issuer>#<name>`.',
    { maxItems: 64, default: [] },
  ),
  jwksMaxStaleMs: integer(
    "How long an issuer's keys are used while they cannot be fetched again. After that none of its tokens is accepted. Keys that the issuer no longer publishes end at once.",
    { range: [60_000, 2_592_000_000], default: 86_400_000 },
  ),
  dpop: key(DPOP, 'Proofs of possession (RFC 9449), which come with tokens that are bound to a key.', {
    default: {},
    examples: [{ nonce: 'required' }],
  }),
  authThrottle: key(
    AUTH_THROTTLE,
    'After so many bad credentials in the window, a new token, proof or webhook from the same address gets 429 unchecked.',
    { default: {}, examples: [{ failures: 20, window: '1m' }] },
  ),
}
