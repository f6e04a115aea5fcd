import { choice, flag, integer, key, keys, list, networks, TEXT, text } from './key-types.ts'
import { FIELD_VALUES } from './sending-keys.ts'
import { ONE_LINE } from './shared-keys.ts'

export const ADDRESSES = keys(
  {
    allow: networks('Only these addresses and networks.', {
      minItems: 1,
      examples: [['10.0.0.0/8', '2001:db8::/32']],
    }),
    deny: networks('Not these addresses and networks.', { minItems: 1, examples: [['192.0.2.7']] }),
  },
  { minProperties: 1 },
)

export const MAINTENANCE = keys({
  purpose: text('Text for the caller: why, and until when.', {
    required: true,
    ...ONE_LINE,
    examples: ['Transfers are back at 06:00 UTC'],
  }),
  retryAfterSeconds: integer('`Retry-After` of the response.', {
    range: [1, 604_800],
    default: 300,
    examples: [3600],
  }),
  passes: networks('Addresses and networks that are served nevertheless.', {
    default: [],
    examples: [['10.0.0.0/8']],
  }),
})

const STRICT_TRANSPORT_SECURITY = keys({
  maxAgeSeconds: integer('The `max-age`, at least a year.', {
    range: [31_536_000, 315_360_000],
    required: true,
    examples: [63_072_000],
  }),
  preload: flag('Whether browsers may add the host to their built-in lists.', { default: false }),
})

const RESPONSE_HEADERS = {
  contentSecurityPolicy: text("Added to responses besides the service's own policy; browsers enforce both.", {
    maxLength: 4096,
    examples: ["default-src 'self'; frame-ancestors 'none'"],
  }),
  referrerPolicy: choice(
    ['no-referrer', 'same-origin', 'strict-origin', 'strict-origin-when-cross-origin'],
    "Replaces the service's `Referrer-Policy`.",
  ),
  permissionsPolicy: text("Replaces the service's `Permissions-Policy`.", {
    maxLength: 4096,
    examples: ['camera=(), geolocation=(), microphone=()'],
  }),
  crossOriginOpenerPolicy: choice(
    ['same-origin', 'same-origin-allow-popups', 'noopener-allow-popups'],
    "Replaces the service's `Cross-Origin-Opener-Policy`.",
  ),
  crossOriginEmbedderPolicy: choice(
    ['require-corp', 'credentialless'],
    "Replaces the service's `Cross-Origin-Embedder-Policy`.",
  ),
  crossOriginResourcePolicy: choice(
    ['same-origin', 'same-site'],
    "Replaces the service's `Cross-Origin-Resource-Policy`.",
  ),
  altSvc: flag(
    "Whether the service's `Alt-Svc` goes to the client. It can make clients bypass the gateway for up to a year.",
    { default: false },
  ),
  set: key(
    FIELD_VALUES,
    "Further response headers, each replacing the service's. Not headers that the gateway writes itself or that have their own key.",
    { minProperties: 1, maxProperties: 100, examples: [{ 'X-Env': 'prod' }] },
  ),
  remove: list(TEXT, "Headers that are removed from the service's responses.", {
    minItems: 1,
    maxItems: 100,
    uniqueItems: true,
    examples: [['X-AspNet-Version']],
  }),
}

export const ROUTE_RESPONSE_HEADERS = keys(RESPONSE_HEADERS)

const FILE_RESPONSE_HEADERS = keys({
  strictTransportSecurity: key(
    STRICT_TRANSPORT_SECURITY,
    '`max-age` and `preload` of the mandatory `Strict-Transport-Security`, for the whole host. `preload` is hard to undo.',
  ),
  ...RESPONSE_HEADERS,
})

export const POLICY_KEYS = {
  maskKeyFile: text(
    'A file with one line of 32 to 256 visible ASCII characters: the key of the pseudonyms of `mask`. Required with `GATEWAY_STORE`, the same at every gateway. Default: `mask-key` in the data directory, made when a row first masks.',
    { examples: ['/run/secrets/mask'] },
  ),
  idempotencyKeyFile: text(
    'A file with lines of 32 to 256 visible ASCII characters: first the key that encrypts what `idempotency` of rows keeps, then earlier keys. Required with `GATEWAY_STORE`, the same at every gateway. Read again when it changes. Default: `idempotency-key` in the data directory, made when a row first needs it.',
    { examples: ['/run/secrets/idempotency'] },
  ),
  signing: key(
    keys({
      keyFile: text('The private key, not encrypted: P-256, Ed25519, or RSA of 2048 to 4096 bits.', {
        required: true,
        examples: ['/run/secrets/signing.pem'],
      }),
      algorithm: choice(['ecdsa-p256-sha256', 'ed25519', 'rsa-pss-sha512'], 'The algorithm of the key.', {
        required: true,
      }),
      iss: text(
        'The claim `http://openbanking.org.uk/iss` of responses to clients with the profile `uk-jws`. Default: these responses are not signed.',
        {
          maxLength: 512,
          examples: ['0015800001041RHAAY'],
        },
      ),
      tan: text(
        'The claim `http://openbanking.org.uk/tan` of responses to clients with the profile `uk-jws`. Default: `openbanking.org.uk`.',
        {
          maxLength: 256,
          examples: ['openbanking.org.uk'],
        },
      ),
      alsoPublish: list(
        TEXT,
        'Files of earlier and future keys, private or public, whose public keys are published too.',
        {
          maxItems: 16,
          uniqueItems: true,
          default: [],
          examples: [['/run/secrets/next-signing.pem']],
        },
      ),
    }),
    'The key that signs requests and responses of rows with `signatures`. The files are PEM, and are read again when they change. A row for `/.well-known/gateway-jwks.json` publishes the public key. More in docs/use/signatures.md.',
    {
      examples: [{ keyFile: '/run/secrets/signing.pem', algorithm: 'ed25519' }],
    },
  ),
  addresses: key(
    ADDRESSES,
    'Which client addresses may send requests, as `trustedProxies` report them; others get 403. `deny` is checked before `allow`; without `allow` all others may. Default: all.',
    { examples: [{ allow: ['10.0.0.0/8'], deny: ['10.6.6.6'] }] },
  ),
  maintenance: key(
    MAINTENANCE,
    'Closes all routes: requests get 503 with Retry-After and the purpose, before authentication. Open requests and tunnels go on. Default: open.',
  ),
  responseHeaders: key(
    FILE_RESPONSE_HEADERS,
    'Headers for every response, besides the mandatory ones. A route may have its own.',
    { minProperties: 1, examples: [{ referrerPolicy: 'no-referrer' }] },
  ),
}
