import { choice, flag, key, keys, list, port, TEXT, text } from './key-types.ts'

const TLS = keys({
  port: port('Port of the listener; 0 takes any free one.', { env: 'GATEWAY_TLS_PORT', examples: [8443] }),
  certFile: text("The server's certificate, then those that lead to its root.", {
    env: 'GATEWAY_TLS_CERT',
    examples: ['/run/tls/tls.crt'],
  }),
  keyFile: text("The certificate's private key, not encrypted: RSA of 2048 bits or more, or EC.", {
    env: 'GATEWAY_TLS_KEY',
    examples: ['/run/tls/tls.key'],
  }),
  clientCaFile: text(
    'The authorities whose client certificates are accepted, each with those that issued it, up to the root. Default: clients are not asked for certificates.',
    { env: 'GATEWAY_TLS_CLIENT_CA', examples: ['/run/tls/clients.pem'] },
  ),
  clientCrlFile: text('A revocation list of each authority of `clientCaFile`. Default: nothing is revoked.', {
    env: 'GATEWAY_TLS_CLIENT_CRL',
    examples: ['/run/tls/clients.crl'],
  }),
  clientOcsp: choice(
    ['off', 'soft', 'hard'],
    'Asks the responder that a client certificate names, over http, whether the certificate was revoked. Where `clientCrlFile` revokes it, nobody is asked. Without a usable answer `soft` accepts the certificate. `hard` refuses it with 503, or with 401 if the certificate names no responder. Default: `off`.',
    { env: 'GATEWAY_TLS_CLIENT_OCSP' },
  ),
  ticketKeyFile: text(
    'One line of 32 to 256 visible ASCII characters, shared by gateways with one certificate: a client can resume its TLS session with any of them. Mode 0600, or 0640 if root owns it. Not with `clientCaFile`. Default: sessions are resumed by this gateway alone.',
    { env: 'GATEWAY_TLS_TICKET_KEY', examples: ['/run/secrets/ticket-key'] },
  ),
  ocspFile: text(
    'The OCSP response about the certificate (RFC 6960), in DER, as `openssl ocsp -respout` writes it. It is checked and sent to clients that ask (stapling) until it expires.',
    { env: 'GATEWAY_TLS_OCSP', examples: ['/run/tls/tls.ocsp'] },
  ),
  ocspFetch: flag(
    'Whether the gateway fetches the OCSP response itself, from the responder that the certificate names, over http. No client waits for it. Not with `ocspFile`.',
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
    'Address of the admin listener (console, metrics, health). One that other machines reach needs adminTokenFile or adminOpen.',
    { env: 'GATEWAY_ADMIN_HOST', restart: true, default: '127.0.0.1' },
  ),
  adminPort: port('Port of the admin listener; 0 takes any free one.', {
    env: 'GATEWAY_ADMIN_PORT',
    restart: true,
    default: 9090,
  }),
  adminTokenFile: text(
    'A file with one line of 32 to 256 visible ASCII characters: the bearer token of the admin listener, needed for everything there but /healthz and /readyz. An edit of the file is in force within a second. Default: no token, which is allowed on loopback only.',
    { env: 'GATEWAY_ADMIN_TOKEN_FILE', restart: true, examples: ['/run/secrets/admin_token'] },
  ),
  adminOpen: flag(
    'Allows the admin listener beyond loopback without a token: whoever reaches it can read metrics and console.',
    { env: 'GATEWAY_ADMIN_OPEN', restart: true, default: false },
  ),
  adminNames: list(
    TEXT,
    'Names in Host under which callers without a token reach the admin listener, besides IP addresses, localhost and adminHost. Any other is refused (DNS rebinding).',
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
    'Who may speak HTTP/2. `tls`: clients of the HTTPS listener that ask for it (ALPN `h2`). `true`: also clients without TLS that begin with its preface (prior knowledge). `false`: nobody.',
    { restart: true, default: 'tls' },
  ),
}
