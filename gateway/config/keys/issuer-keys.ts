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
  clientSecretFile: text('A file with the client secret in one line (`client_secret_basic`).', {
    examples: ['/run/secrets/introspection'],
  }),
  keyFile: text(
    'A file with a private key in PEM: P-256, Ed25519 or RSA. The gateway authenticates by signed assertions (`private_key_jwt`: ES256, EdDSA, PS256), or, with `certFile`, by the certificate. Either `keyFile` or `clientSecretFile` is needed.',
    { examples: ['/run/secrets/introspection.key'] },
  ),
  certFile: text('A file with the certificate of `keyFile` in PEM (`tls_client_auth`, RFC 8705).', {
    examples: ['/run/secrets/introspection.crt'],
  }),
  for: choice(
    ['opaque', 'all'],
    "`opaque`: asks about all tokens except JWTs of trusted issuers. `all`: also about this issuer's JWTs.",
    { default: 'opaque' },
  ),
  cache: key(
    SPAN_OR_OFF,
    'How long the answer "active" is used again, at most 5m and never beyond `exp`; `off` asks each time. During that time a revoked token still passes.',
    { default: '30s', examples: ['10s', 'off'] },
  ),
  negativeCache: key(
    SPAN_OR_OFF,
    'How long the answer "not active" is used again, at most 5m; `off` asks each time.',
    { default: '5s', examples: ['off'] },
  ),
  timeoutMs: integer('How long an answer may take. After that the request gets 503.', {
    range: [50, 30_000],
    default: 2000,
  }),
  signed: flag('Whether the answers must be signed by the issuer (RFC 9701).', {
    default: false,
  }),
})

export type WrittenIntrospection = Written<typeof INTROSPECTION>

const TERMS = {
  introspection: key(
    INTROSPECTION,
    'How the gateway asks the issuer about opaque tokens (RFC 7662). A row of `routes` may trust only one issuer with `introspection`.',
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
    "The claims of the issuer's access tokens: the name of a preset, or an object whose keys replace those of its `preset`. Default: `rfc9068`, the only one under the profile `fapi`.",
    { examples: ['entra', { preset: 'keycloak', maxLifetime: '30h' }] },
  ),
  clockTolerance: span(
    'smh',
    'How much the clocks of issuer and gateway may differ, at most 60s, for `exp`, `nbf`, `iat` and `auth_time` (FAPI 2.0 section 5.3.2.1).',
    { default: '10s', examples: ['30s'] },
  ),
}

const ISSUER = keys({
  issuer: text('The issuer, exactly as in the claim `iss` of its tokens.', {
    required: true,
    maxLength: 256,
    examples: ['https://partner.example'],
  }),
  jwksUri: text('Where the issuer publishes its keys.', {
    required: true,
    examples: ['https://partner.example/jwks.json'],
  }),
  audience: key(AUDIENCE, 'The `aud` that its tokens must have, or one of a list.', {
    required: true,
    examples: ['https://bank.example/api'],
  }),
  algorithms: key(ALGORITHMS, 'As the top-level `algorithms`.', { examples: [['PS256', 'EdDSA']] }),
  profile: key(PROFILE, 'As the top-level `profile`.', { examples: ['fapi'] }),
  ...TERMS,
  scopes: list(
    SCOPE,
    'The scopes that its tokens may have. Others are ignored: they count for no route and do not go upstream.',
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
    'The URLs under which clients reach the gateway, with the path that a proxy removes. Proofs are compared with these, never with Host. Default: scheme, host and port of the issuer.',
    { minItems: 1, uniqueItems: true, examples: [['https://api.bank.example']] },
  ),
})

const AUTH_THROTTLE = keys({
  failures: integer('Bad credentials that an address may send; 0: any number.', {
    range: [0, 1000],
    default: 20,
    examples: [20, 0],
  }),
  window: span('smh', 'A sliding window, in s, m or h, at most 24h.', { default: '1m' }),
})

export const ISSUER_KEYS = {
  issuer: text(
    'The issuer whose tokens are accepted, exactly as in their claim `iss`. The default is the demo; a warning is logged when routes accept its bearer tokens.',
    { env: 'GATEWAY_ISSUER', default: 'http://localhost:8080', examples: ['https://bank.example'] },
  ),
  jwksUri: text(
    "URL of the issuer's keys (JWK Set). Default: the first http or https upstream + /.well-known/jwks.json.",
    { env: 'GATEWAY_JWKS_URI', examples: ['https://bank.example/.well-known/jwks.json'] },
  ),
  audience: key(AUDIENCE, 'The `aud` that tokens must have, or one of a list. Default: the issuer + /api.', {
    env: 'GATEWAY_AUDIENCE',
    examples: ['https://bank.example/api', ['api://payments', 'https://bank.example/api']],
  }),
  algorithms: key(
    ALGORITHMS,
    "The algorithms that the issuer's tokens may be signed with. `Ed25519` and `EdDSA` are the same. Default: all; under the profile `fapi` all but RS256.",
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
    "Further issuers. A token is verified only with its own issuer's keys. Users, clients and sessions of these issuers are named `<issuer>#<name>`.",
    { maxItems: 64, default: [] },
  ),
  jwksMaxStaleMs: integer(
    "How long an issuer's keys are used while they cannot be fetched again. After that none of its tokens is accepted. Keys that the issuer no longer publishes are dropped at the next fetch.",
    { range: [60_000, 2_592_000_000], default: 86_400_000 },
  ),
  dpop: key(
    DPOP,
    'Proofs of possession (RFC 9449), which clients send with tokens that are bound to a key.',
    {
      default: {},
      examples: [{ nonce: 'required' }],
    },
  ),
  authThrottle: key(
    AUTH_THROTTLE,
    'After `failures` bad credentials within `window`, new tokens, proofs, webhooks and signatures of that address are not checked: they get 429.',
    { default: {}, examples: [{ failures: 20, window: '1m' }] },
  ),
}
