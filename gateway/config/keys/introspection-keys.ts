import { Type } from 'typebox'
import { choice, flag, integer, key, keys, text, type Written } from './key-types.ts'

const SPAN_OR_OFF = Type.String({
  pattern: '^(?:off|[1-9][0-9]*[sm])$',
  patternErrorMessage: 'must be "off", or a whole number followed by s or m, such as "30s" or "1m"',
})

export const INTROSPECTION = keys({
  url: text('The introspection endpoint of the issuer: https, or http on this machine.', {
    required: true,
    examples: ['https://login.example/oauth2/introspect'],
  }),
  clientId: text('The client that the gateway is to the issuer.', {
    required: true,
    maxLength: 256,
    examples: ['countersign'],
  }),
  clientSecretFile: text(
    'A file with the secret of the client, in one line. The gateway proves itself by it (`client_secret_basic`).',
    { examples: ['/run/secrets/introspection'] },
  ),
  keyFile: text(
    'A file with a private key in PEM: P-256, Ed25519 or RSA. The gateway proves itself by assertions that it signs (`private_key_jwt`: ES256, EdDSA, PS256), or with `certFile` by the certificate. Either this or `clientSecretFile` is needed. New files are in force at once.',
    { examples: ['/run/secrets/introspection.key'] },
  ),
  certFile: text('A file with the certificate of `keyFile` in PEM (`tls_client_auth`, RFC 8705).', {
    examples: ['/run/secrets/introspection.crt'],
  }),
  for: choice(
    ['opaque', 'all'],
    '`opaque`: what is no JWT of an issuer that is trusted. `all`: the JWTs of this issuer, too.',
    { default: 'opaque' },
  ),
  cache: key(
    SPAN_OR_OFF,
    'How long an active token is not asked about again, at most 5m, and never beyond its `exp`; `off`: for each request. A token that was revoked at the issuer passes so long.',
    { default: '30s', examples: ['10s', 'off'] },
  ),
  negativeCache: key(
    SPAN_OR_OFF,
    'How long a token that is not active is not asked about again, at most 5m; `off`: for each request.',
    { default: '5s', examples: ['off'] },
  ),
  timeoutMs: integer('How long an answer may take, in milliseconds. Then the request gets 503.', {
    range: [50, 30_000],
    default: 2000,
  }),
  signed: flag('Whether only answers that the issuer has signed are believed (RFC 9701).', {
    default: false,
  }),
})

export type WrittenIntrospection = Written<typeof INTROSPECTION>
