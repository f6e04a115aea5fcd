import { type Static, Type } from 'typebox'
import { anyText, choice, file, flag, key, keys, list, span, text } from './key-types.ts'
import { SECRET } from './shared-keys.ts'

const CLIENT_SCOPE = Type.String({
  pattern: '^[\\x21\\x23-\\x5b\\x5d-\\x7e]{1,128}$',
  patternErrorMessage: 'must be 1 to 128 visible ASCII characters without a space, \\ or "',
})

const MTLS = keys({
  thumbprint: anyText(
    'SHA-256 of the certificate, in hexadecimal; colons and letter case make no difference. `openssl x509 -noout -fingerprint -sha256 -in client.pem` prints it.',
    {
      pattern: '^[0-9A-Fa-f]{2}(?::?[0-9A-Fa-f]{2}){31}$',
      patternErrorMessage: 'must be the 64 hexadecimal digits of a SHA-256 thumbprint',
      examples: ['60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752'],
    },
  ),
  sanDns: anyText(
    "A DNS name among the certificate's subject alternative names; letter case makes no difference, wildcards match nothing.",
    {
      maxLength: 253,
      pattern:
        '^(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\\.)*[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$',
      patternErrorMessage: 'must be a DNS name without a wildcard or a closing dot',
      examples: ['client.bank-b.example'],
    },
  ),
  sanUri: anyText(
    "A URI among the certificate's subject alternative names, compared character by character.",
    {
      maxLength: 2048,
      pattern: '^[A-Za-z][A-Za-z0-9+.-]*:[\\x21-\\x7e]+$',
      patternErrorMessage: 'must be a URI with its scheme',
      examples: ['spiffe://bank-b.example/payments'],
    },
  ),
  subject: text(
    'The whole distinguished name of the certificate, the most specific part first (RFC 4514). `openssl x509 -noout -subject -nameopt RFC2253 -in client.pem` prints it.',
    { maxLength: 1024, examples: ['CN=bank-b,O=Bank B,C=DE'] },
  ),
  organizationIdentifier: anyText(
    "The subject's `organizationIdentifier` (2.5.4.97). A renewal may change all other names.",
    {
      maxLength: 256,
      pattern: '^[A-Z]{2}[A-Z:][A-Z]{2}-[\\x20-\\x7e]*[\\x21-\\x7e]$',
      patternErrorMessage: 'must be an identifier such as "PSDDE-BAFIN-123456"',
      examples: ['PSDDE-BAFIN-123456'],
    },
  ),
  psd2Roles: flag(
    'Whether the roles in the PSD2 statement of the certificate (ETSI TS 119 495) count as scopes, such as `psd2:PSP_AI`. A certificate without a valid statement is refused.',
    { examples: [true] },
  ),
  issuer: key(
    Type.Unsafe<string | readonly string[]>({
      type: ['string', 'array'],
      minLength: 1,
      maxLength: 1024,
      minItems: 1,
      maxItems: 8,
      items: Type.String({ minLength: 1, maxLength: 1024 }),
    }),
    'The authority of `tls.clientCaFile` that must have issued the certificate, itself or through others: its whole subject, written like `subject`, or its SHA-256 thumbprint. A thumbprint distinguishes authorities with the same subject. A list names several possible authorities.',
    { examples: ['CN=Bank B CA,O=Bank B,C=DE', ['CN=Bank B CA', 'CN=Bank B CA 2']] },
  ),
})

const HEADER_NAME = {
  pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$",
  patternErrorMessage: 'must be the name of a header',
} as const

const DESCRIBED = keys({
  header: anyText('The header with the signature.', {
    required: true,
    ...HEADER_NAME,
    examples: ['X-Shopify-Hmac-Sha256'],
  }),
  algorithm: choice(['sha256', 'sha512', 'sha1'], 'The hash of the HMAC.', { required: true }),
  encoding: choice(['hex', 'base64'], 'How the signature is written.', { required: true }),
  prefix: anyText('Text before the signature in its header.', {
    pattern: '^[\\x21-\\x7e]{0,64}$',
    patternErrorMessage: 'must be at most 64 visible ASCII characters',
    examples: ['v0='],
  }),
  signed: anyText(
    'What is signed: text with the parts `{body}`, `{id}`, `{timestamp}` and `{url}`. `{url}` is one of `dpop.publicUrls`, followed by the target of the request.',
    {
      required: true,
      minLength: 1,
      maxLength: 256,
      pattern: '^[\\x20-\\x7e\\n]+$',
      patternErrorMessage: 'must be visible ASCII characters with {body} among them',
      examples: ['{timestamp}.{body}', 'v0:{timestamp}:{body}', '{body}'],
    },
  ),
  idHeader: anyText(
    'The header with the id of the delivery. Without one, a delivery is recognized by the signed text.',
    {
      ...HEADER_NAME,
      examples: ['X-Shopify-Webhook-Id'],
    },
  ),
  timestampHeader: anyText('The header with the signed time, in seconds since 1970.', {
    ...HEADER_NAME,
    examples: ['X-Slack-Request-Timestamp'],
  }),
  tolerance: span(
    'smh',
    "How far the signed time may differ from the gateway's clock, either way, at most 1h. Default: 5m.",
    { examples: ['1m'] },
  ),
  secretEncoding: choice(
    ['text', 'hex', 'base64'],
    'How the secrets become the key of the HMAC: as their characters, or as the bytes that they encode. Default: `text`.',
  ),
})

export const HMAC_SCHEME = Type.Unsafe<string | Static<typeof DESCRIBED>>({
  ...DESCRIBED,
  type: ['string', 'object'],
  pattern: '^(?:standard|svix|stripe|github)$',
  patternErrorMessage:
    'must be "standard", "svix", "stripe", "github", or an object that describes the scheme',
})

const HMAC = keys(
  {
    scheme: key(
      HMAC_SCHEME,
      'How the sender signs: `standard` is Standard Webhooks 1.0, `svix` the same with headers named `svix-…`; `stripe`, `github`; or an object that describes another scheme of HMAC. Default: `standard`.',
      {
        examples: [
          'stripe',
          { header: 'X-Shopify-Hmac-Sha256', algorithm: 'sha256', encoding: 'base64', signed: '{body}' },
        ],
      },
    ),
    keyId: anyText(
      'What the client sends as `X-API-Key`; unique. It is a name, not a secret. Not needed where rows name the client by `webhookClient`.',
      {
        pattern: '^(?![Ww][Hh][Ss][Ee][Cc]_)[A-Za-z0-9._~-]{1,128}$',
        patternErrorMessage:
          'must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ - and must not be a secret (whsec_…)',
        examples: ['key_acme'],
      },
    ),
    secrets: list(
      SECRET,
      'Where the secrets are; for `standard` and `svix` each is `whsec_` and the base64 of 24 to 64 random bytes; for other schemes 16 to 256 visible ASCII characters. Several are accepted at once. A file is read again when it changes.',
      {
        required: true,
        minItems: 1,
        maxItems: 8,
        examples: [[{ env: 'ACME_WEBHOOK_SECRET' }, { file: '/run/secrets/acme' }]],
      },
    ),
  },
  { writeOnly: true },
)

const DESCRIBED_PROFILE = keys({
  components: list(
    Type.String({ maxLength: 256 }),
    'What must be signed: headers in lower case, `@method`, `@target-uri`, `@authority`, `@scheme`, `@request-target`, `@path`, `@query`, `@query-param;name="…"`.',
    {
      required: true,
      minItems: 1,
      maxItems: 32,
      uniqueItems: true,
      examples: [['@method', '@target-uri', 'content-type']],
    },
  ),
  tag: anyText('The `tag` that signatures must have. Default: any, or none.', {
    pattern: '^[\\x20\\x21\\x23-\\x5b\\x5d-\\x7e]{1,128}$',
    patternErrorMessage: 'must be 1 to 128 ASCII characters without \\ and "',
    examples: ['payments'],
  }),
  maxAge: span('smh', 'How long ago a signature may have been `created`, at most 5m.', {
    required: true,
    examples: ['60s'],
  }),
  algorithms: list(
    Type.Enum(['ES256', 'EdDSA', 'PS256', 'ecdsa-p256-sha256', 'ed25519', 'rsa-pss-sha512']),
    'Allowed algorithms: `ES256`, `EdDSA`, `PS256` for signatures without `alg`; the others for signatures with that `alg`.',
    { required: true, minItems: 1, uniqueItems: true, examples: [['ES256', 'ecdsa-p256-sha256']] },
  ),
})

const SIGNATURE_PROFILE = Type.Unsafe<
  'fapi-2' | 'uk-jws' | 'berlin-group' | Static<typeof DESCRIBED_PROFILE>
>({
  ...DESCRIBED_PROFILE,
  type: ['string', 'object'],
  pattern: '^(?:fapi-2|uk-jws|berlin-group)$',
  patternErrorMessage: 'must be "fapi-2", "uk-jws", "berlin-group", or an object that describes the profile',
})

export const SIGNATURE = keys({
  jwksUri: text(
    'Where the client publishes its keys: https, or http on this machine. Fetched every 5 minutes.',
    { maxLength: 2048, examples: ['https://bank-b.example/jwks.json'] },
  ),
  jwksFile: text('A file with its JWK Set, in place of `jwksUri`. Read again when it changes.', {
    maxLength: 1024,
    examples: ['/etc/countersign/bank-b.jwks.json'],
  }),
  profile: key(
    SIGNATURE_PROFILE,
    'The rules for its signatures: `fapi-2`, `uk-jws`, `berlin-group`, or an object that describes another profile. More in docs/use/signatures.md.',
    {
      required: true,
      examples: [
        'fapi-2',
        { components: ['@method', '@target-uri'], maxAge: '60s', algorithms: ['ecdsa-p256-sha256'] },
      ],
    },
  ),
  iss: text('With `uk-jws`: the claim `http://openbanking.org.uk/iss` that signatures must have.', {
    maxLength: 512,
    examples: ['0015800001041RHAAY/HQuZPIt3ipkh33Uxytox1E'],
  }),
  tan: text('With `uk-jws`: the claim `http://openbanking.org.uk/tan`. Default: `openbanking.org.uk`.', {
    maxLength: 256,
    examples: ['openbanking.org.uk'],
  }),
})

export const CLIENT_KEYS = keys({
  id: anyText(
    'The name of the client in audit trail, limits and `X-Auth-Client` upstream; unique. If the client uses tokens too, write their percent-encoded `client_id`, so that both are one caller.',
    {
      required: true,
      pattern: '^[\\x21-\\x7e]{1,256}$',
      patternErrorMessage: 'must be 1 to 256 visible ASCII characters without a space',
      examples: ['bank-b', 'acme'],
    },
  ),
  scopes: list(CLIENT_SCOPE, 'What the client may do. Default: nothing that needs a scope.', {
    maxItems: 100,
    uniqueItems: true,
    default: [],
    examples: [['accounts:read']],
  }),
  plan: text(
    "The client's plan in limits.json. An entry with only `id` and `plan` is for an app that uses tokens; the id of an app of one of `issuers` is `<issuer>#<app>`.",
    {
      maxLength: 64,
      examples: ['gold'],
    },
  ),
  mtls: key(
    MTLS,
    "How the client's certificate is recognized: by exactly one of `thumbprint`, `sanDns`, `sanUri`, `subject`, `organizationIdentifier`. With several authorities in `tls.clientCaFile`, `issuer` is needed too, except with `thumbprint`.",
    { minProperties: 1, maxProperties: 3, examples: [{ subject: 'CN=bank-b,O=Bank B,C=DE' }] },
  ),
  hmac: key(HMAC, 'The key with which the client signs its webhooks, and how it signs them.', {
    examples: [{ keyId: 'key_acme', secrets: [{ env: 'ACME_WEBHOOK_SECRET' }] }],
  }),
  signature: key(SIGNATURE, 'How the client signs its requests.', {
    examples: [{ jwksUri: 'https://bank-b.example/jwks.json', profile: 'fapi-2' }],
  }),
})

export const CLIENTS_FILE = file(
  'clients',
  'The machines that may call with a client certificate (mTLS), signed webhooks (HMAC) or signed requests. Read again when the file changes; a file with a fault changes nothing. It contains no secrets.',
  {
    clients: list(CLIENT_KEYS, 'One entry per client.', {
      required: true,
      maxItems: 10_000,
      examples: [[{ id: 'acme', hmac: { keyId: 'key_acme', secrets: [{ env: 'ACME_WEBHOOK_SECRET' }] } }]],
    }),
  },
)
