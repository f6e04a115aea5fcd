import { choice, flag, key, keys, list, port, TEXT, text } from './key-types.ts'

const TLS = keys({
  port: port('Port of the listener; 0 takes any free one.', { env: 'GATEWAY_TLS_PORT', examples: [8443] }),
  certFile: text("The server's certificate, followed by its intermediate certificates.", {
    env: 'GATEWAY_TLS_CERT',
    examples: ['/run/tls/tls.crt'],
  }),
  keyFile: text("The certificate's private key, not encrypted: RSA of 2048 bits or more, or EC.", {
    env: 'GATEWAY_TLS_KEY',
    examples: ['/run/tls/tls.key'],
  }),
  clientCaFile: text(
    'The certificate authorities of accepted client certificates, each with its issuers up to the root. Default: clients are not asked for certificates.',
    { env: 'GATEWAY_TLS_CLIENT_CA', examples: ['/run/tls/clients.pem'] },
  ),
  clientCrlFile: text(
    'Revocation lists, one of each authority in `clientCaFile`. Default: nothing is revoked.',
    {
      env: 'GATEWAY_TLS_CLIENT_CRL',
      examples: ['/run/tls/clients.crl'],
    },
  ),
  clientOcsp: choice(
    ['off', 'soft', 'hard'],
    'Whether the gateway asks, over http, the OCSP responder that a client certificate names. It does not ask about a certificate that `clientCrlFile` revokes. Without a usable answer `soft` accepts the certificate. `hard` refuses it with 503, or with 401 if the certificate names no responder. Default: `off`.',
    { env: 'GATEWAY_TLS_CLIENT_OCSP' },
  ),
  ticketKeyFile: text(
    "A file with one line of 32 to 256 visible ASCII characters. Gateways with the same file and certificate resume one another's TLS sessions. Mode 0600, or 0640 if root owns it. Not with `clientCaFile`. Default: only this gateway resumes its sessions.",
    { env: 'GATEWAY_TLS_TICKET_KEY', examples: ['/run/secrets/ticket-key'] },
  ),
  ocspFile: text(
    'A file with an OCSP response about the certificate (RFC 6960), in DER, as from `openssl ocsp -respout`. It is checked, and sent to clients that ask (stapling) until it expires.',
    { env: 'GATEWAY_TLS_OCSP', examples: ['/run/tls/tls.ocsp'] },
  ),
  ocspFetch: flag(
    'Whether the gateway fetches the OCSP response over http from the responder in its certificate. No client waits for it. Not with `ocspFile`.',
    { env: 'GATEWAY_TLS_OCSP_FETCH', examples: [true] },
  ),
})

export const LISTENER_KEYS = {
  host: text('Address of the public listener.', {
    env: 'GATEWAY_HOST',
    restart: true,
    default: '127.0.0.1',
    examples: ['127.0.0.1', '0.0.0.0', '::'],
  }),
  port: port('Port of the public listener; 0 takes any free one.', {
    env: 'GATEWAY_PORT',
    restart: true,
    default: 8080,
  }),
  tls: key(
    TLS,
    'A second public listener, for TLS 1.2 and 1.3, on the host of the first. The files are PEM, relative to the working directory, and are read anew when they change.',
    {
      restart: true,
      examples: [{ port: 8443, certFile: '/run/tls/tls.crt', keyFile: '/run/tls/tls.key' }],
    },
  ),
  adminHost: text(
    'Address of the admin listener (console, metrics, health). An address that other machines can reach needs adminTokenFile or adminOpen.',
    { env: 'GATEWAY_ADMIN_HOST', restart: true, default: '127.0.0.1' },
  ),
  adminPort: port('Port of the admin listener; 0 takes any free one.', {
    env: 'GATEWAY_ADMIN_PORT',
    restart: true,
    default: 9090,
  }),
  adminTokenFile: text(
    'A file with one line of 32 to 256 visible ASCII characters: the bearer token that callers of the admin listener need, except for /healthz and /readyz. An edit of the file is in force within a second. Default: no token, which is allowed on loopback only.',
    { env: 'GATEWAY_ADMIN_TOKEN_FILE', restart: true, examples: ['/run/secrets/admin_token'] },
  ),
  adminOpen: flag(
    'Allows the admin listener beyond loopback without a token: whoever reaches it can read metrics and console.',
    { env: 'GATEWAY_ADMIN_OPEN', restart: true, default: false },
  ),
  adminNames: list(
    TEXT,
    'Names that callers without a token may send as Host to the admin listener, besides IP addresses, localhost and adminHost. Other names are refused, against DNS rebinding.',
    {
      env: 'GATEWAY_ADMIN_NAMES',
      restart: true,
      maxItems: 64,
      default: [],
      examples: [['gateway.ops.example']],
    },
  ),
  http2: choice(
    ['tls', true, false],
    'Who may use HTTP/2. `tls`: clients of the HTTPS listener (ALPN `h2`). `true`: also clients without TLS (prior knowledge). `false`: nobody.',
    { restart: true, default: 'tls' },
  ),
}
