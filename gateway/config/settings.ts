import type { BlockList } from 'node:net'

/** How a route identifies the caller. `none` admits anyone, even beside another method. */
export type RouteAuth = 'none' | 'bearer' | 'mtls' | 'hmac'

/** One row of config/gateway.json's `routes`, with every default filled in. Immutable. */
export interface Route {
  /** Exact path, or a prefix ending in `/*`. Also the `route` label of metrics. */
  readonly path: string
  /** Undefined: every method but CONNECT and TRACE. */
  readonly methods: ReadonlySet<string> | undefined
  readonly auth: ReadonlySet<RouteAuth>
  /** All of them are needed (RFC 6750 section 3.1, `insufficient_scope`). */
  readonly scopes: readonly string[]
  /** Whole exchange upstream, from sending to the last byte of the response; undefined: as long as it goes on. */
  readonly timeoutMs: number | undefined
  /** How long the upstream or the client may be silent during an exchange. */
  readonly idleTimeoutMs: number
  readonly maxBodyBytes: number
  /** Whether an authorized client certificate goes upstream in `Client-Cert` (RFC 9440). */
  readonly clientCert: boolean
}

/** Bounds on time, in milliseconds but where the name says otherwise. */
export interface Timeouts {
  /** Until the connection to the upstream is open. */
  readonly connectMs: number
  /** From the request sent until the upstream's response begins. */
  readonly headersMs: number
  /** Silence in the middle of an exchange, on either side; a route's `idleTimeoutMs` takes its place. */
  readonly bodyIdleMs: number
  /** Whole upstream exchange, where a route has no `timeoutMs` of its own; undefined: as long as it goes on. */
  readonly totalMs: number | undefined
  /** Until the TLS handshake of a downstream connection is complete. */
  readonly handshakeMs: number
  /** Until a downstream request's header is complete. */
  readonly requestHeadersMs: number
  /** Until a downstream request's body is complete; undefined: as long as it keeps the minimum rate. */
  readonly requestMs: number | undefined
  /** How long nothing of a request body may come, and how far it may fall behind the minimum rate. */
  readonly bodyGraceMs: number
  /** Of a request body, beyond the grace. 0: only silence ends it. */
  readonly minBodyBytesPerSecond: number
  /** An idle downstream connection is kept this long. */
  readonly keepAliveMs: number
  /** After the grace of a stop, until what is still open is broken off. */
  readonly drainMs: number
}

/** The signature algorithms that tokens may have. */
export type TokenAlgorithm = 'ES256' | 'PS256' | 'EdDSA' | 'RS256'

/** An issuer whose tokens are accepted, with every default filled in. Immutable. */
export interface IssuerSettings {
  /** Exactly the `iss` of its tokens. */
  readonly issuer: string
  readonly jwksUri: string
  readonly audience: string
  readonly algorithms: readonly TokenAlgorithm[]
  /** `fapi`: FAPI 2.0 section 5; its tokens must be bound to a key or certificate, and RS256 is none of `algorithms`. */
  readonly profile: 'fapi' | undefined
}

/** An issuer beside our own one. Immutable. */
export interface FurtherIssuer extends IssuerSettings {
  /** What its tokens may permit; its other scopes are dropped. */
  readonly scopes: readonly string[]
}

/** What DPoP proofs must have (RFC 9449). */
export interface DpopSettings {
  /** Whether a proof needs a nonce that the gateway gave out. */
  readonly nonce: 'off' | 'required'
  /** The URLs that clients know the gateway by; what the path of a request is put to before it is compared with `htu`. */
  readonly publicUrls: readonly string[]
}

/** When an address is blocked for presenting bad credentials. */
export interface AuthThrottleSettings {
  /** 0: never. */
  readonly failures: number
  readonly windowMs: number
}

/** How many requests of any kind one address may send. */
export interface AddressRateSettings {
  /** At least 1. */
  readonly requests: number
  readonly windowMs: number
}

/** The public HTTPS listener. Files are relative to the working directory. Immutable. */
export interface TlsSettings {
  readonly port: number
  /** PEM: the server's certificate first, then those that lead to its root. */
  readonly certFile: string
  readonly keyFile: string
  /** Undefined: clients are not asked for certificates. */
  readonly clientCaFile: string | undefined
  /** Undefined: nothing is revoked. Never without `clientCaFile`. */
  readonly clientCrlFile: string | undefined
}

/** How durable an audit record must be before its request continues. */
export type Durability = 'written' | 'synced' | 'buffered'

/** All settings: environment over file over defaults. Immutable. */
export interface Settings extends IssuerSettings {
  readonly configFile: string
  readonly limitsFile: string
  /** Undefined: no route takes machine callers, and nobody named a file of them. */
  readonly clientsFile: string | undefined
  readonly host: string
  readonly port: number
  /** Undefined: plain HTTP only. It has the host of the public listener. */
  readonly tls: TlsSettings | undefined
  readonly adminHost: string
  readonly adminPort: number
  /** At least one: `http://host:port`, `https://host:port` or `unix:/path.sock`. */
  readonly upstreams: readonly string[]
  /** What proves the gateway to the upstreams, in X-Gateway-Secret. Undefined: nothing does. Never logged. */
  readonly upstreamSecret: string | undefined
  /** Trusted beside our own one, which is the one of these settings themselves. */
  readonly issuers: readonly FurtherIssuer[]
  /** How long keys stay in force when they cannot be fetched again. */
  readonly jwksMaxStaleMs: number
  readonly dpop: DpopSettings
  readonly authThrottle: AuthThrottleSettings
  /** Undefined: any number. */
  readonly addressRate: AddressRateSettings | undefined
  readonly auditFile: string
  readonly auditDurability: Durability
  readonly dataDir: string
  /** What happens to requests under limits of an hour or more when the journal cannot be written. */
  readonly onJournalFailure: 'unready' | 'degraded'
  readonly logLevel: string
  /** Addresses whose forwarded headers are trusted; undefined: none. */
  readonly trustedProxies: BlockList | undefined
  /** Addresses whose Client-Cert goes upstream on routes with `clientCert`; undefined: none. */
  readonly clientCertProxies: BlockList | undefined
  /** Names of request fields, in lower case, that pass although services fold them. */
  readonly allowedFieldNames: ReadonlySet<string>
  /** Whether the gateway adds itself to Via. */
  readonly via: boolean
  /** Threads that serve requests; with 1 it is the main one. */
  readonly workers: number
  /** After SIGTERM, until the public listeners close: not ready, and everybody is served. Milliseconds. */
  readonly drainGraceMs: number
  /** Exchanges open at once; one more is refused with 503. */
  readonly maxInFlight: number
  /** Tunnels open at once; one more is refused with 503. */
  readonly maxTunnels: number
  readonly timeouts: Timeouts
  readonly routes: readonly Route[]
}
