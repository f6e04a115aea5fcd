import type { BlockList } from 'node:net'

/** What a route accepts as proof of the caller. `none` lets anyone through, also beside another method. */
export type RouteAuth = 'none' | 'bearer'

/** One row of config/gateway.json's `routes`, with every default filled in. Immutable. */
export interface Route {
  /** Exact path, or a prefix ending in `/*`. Also the `route` label of metrics. */
  readonly path: string
  /** Undefined: every method but CONNECT and TRACE. */
  readonly methods: ReadonlySet<string> | undefined
  readonly auth: ReadonlySet<RouteAuth>
  /** All of them are needed (RFC 6750 section 3.1, `insufficient_scope`). */
  readonly scopes: readonly string[]
  /** Whole exchange upstream, from sending to the last byte of the answer. */
  readonly timeoutMs: number
  readonly maxBodyBytes: number
}

/** Bounds on time, each in milliseconds. */
export interface Timeouts {
  /** Until the upstream's connection stands. */
  readonly connectMs: number
  /** From the request sent until the upstream's answer begins. */
  readonly headersMs: number
  /** Between two pieces of the upstream's body. */
  readonly bodyIdleMs: number
  /** Whole upstream exchange; a route's `timeoutMs` takes its place. */
  readonly totalMs: number
  /** Until a downstream request's header is complete. */
  readonly requestHeadersMs: number
  /** Until a downstream request's body is complete. */
  readonly requestMs: number
  /** An idle downstream connection is kept this long. */
  readonly keepAliveMs: number
  /** After SIGTERM, until what is still open is broken off. */
  readonly drainMs: number
}

/** Everything the gateway was told: file, overridden by environment, with every default filled in. Immutable. */
export interface Settings {
  readonly configFile: string
  readonly limitsFile: string
  readonly host: string
  readonly port: number
  readonly adminHost: string
  readonly adminPort: number
  /** At least one: `http://host:port`, `https://host:port` or `unix:/path.sock`. */
  readonly upstreams: readonly string[]
  readonly issuer: string
  readonly jwksUri: string
  readonly audience: string
  readonly auditFile: string
  readonly dataDir: string
  readonly logLevel: string
  /** Addresses whose forwarded headers are believed. */
  readonly trustedProxies: BlockList
  /** Exchanges open at once; one more is refused with 503. */
  readonly maxInFlight: number
  readonly timeouts: Timeouts
  readonly routes: readonly Route[]
}
