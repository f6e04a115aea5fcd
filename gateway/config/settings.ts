import type { BlockList } from 'node:net'
import type { AddressList } from '../edge/rules/client-address.ts'
import type { ParameterPlace } from '../edge/rules/path-template.ts'
import type { Cors } from '../edge/rules/policy/cors.ts'
import type { Leniency } from '../edge/rules/policy/path-readings.ts'
import type { ForwardedPolicy } from '../edge/rules/policy/response-policy.ts'
import type { SendingPolicy } from '../edge/rules/policy/sending-policy.ts'
import type { Refusal } from '../refusals.ts'
import type { TokenDialect } from './issuers/token-dialects.ts'
import type { WrittenAudit, WrittenGateway, WrittenRoute } from './keys/gateway-keys.ts'
import type { WrittenIntrospection } from './keys/issuer-keys.ts'
import type { MemoryProfile } from './rules/memory-profiles.ts'
import type { StoreSettings } from './rules/store-address.ts'
import type { TracingSettings } from './tracing-settings.ts'
import type { UpstreamTlsFiles } from './upstreams/upstream-group.ts'
import type { AttestationSettings } from './witness-settings.ts'

/** A credential that a route accepts. `none`: a request without a credential passes too. */
export type RouteAuth = WrittenRoute['auth'][number]

/** Rules of a route before authentication. */
export interface Screening {
  readonly addresses: AddressList | undefined
  /** The answer to preflights. */
  readonly cors: Cors | undefined
  readonly maintenance: Maintenance | undefined
}

export interface Maintenance {
  readonly refusal: Refusal
  /** Addresses that are served all the same; undefined: none. */
  readonly passes: BlockList | undefined
}

/** Step-up authentication (RFC 9470). */
export interface StepUp {
  readonly acr: readonly string[] | undefined
  /** The greatest age of `auth_time`. */
  readonly maxAgeMs: number | undefined
}

export interface IdempotencyTerms
  extends Omit<WrittenIdempotency, 'header' | 'keep' | 'maxKeysPerCaller' | 'onUnknown'> {
  /** In lower case. */
  readonly header: string
  readonly keepMs: number
  /** Limit of the keys of one caller at a time. */
  readonly maxKeys: number
  /** True when the service resolves a key whose outcome is unknown. */
  readonly resolves: boolean
}

type WrittenIdempotency = NonNullable<WrittenRoute['idempotency']>

export interface JsonMember {
  /** A JSON pointer (RFC 6901). */
  readonly pointer: string
  readonly steps: readonly string[]
}

/** What the `authorization_details` of a token (RFC 9396) must say of the body. */
export interface DetailsTerms {
  readonly type: string
  /** Members of the detail. Each must equal the body's member at the same index of `members`. */
  readonly details: readonly JsonMember[]
  readonly members: readonly JsonMember[]
}

export interface DeciderTerms {
  readonly url: string
  readonly timeoutMs: number
  /** 0: not cached. */
  readonly cacheMs: number
}

export interface DecisionTerms extends DeciderTerms {
  /** Rows that share a decider have one key. */
  readonly key: string
  readonly parameters: readonly ParameterPlace[]
  /** Members of the body that are sent. */
  readonly members: readonly JsonMember[]
}

/** A row of `routes` in config/gateway.json, with every default filled in. */
export interface Route {
  /** An exact path, a template or a prefix. Also the `route` label of metrics. */
  readonly path: string
  /** Undefined: every registered method but CONNECT and TRACE. */
  readonly methods: ReadonlySet<string> | undefined
  readonly auth: ReadonlySet<RouteAuth>
  /** The caller must hold every scope of one of these sets. Empty: no scope is needed. */
  readonly scopes: readonly (readonly string[])[]
  readonly stepUp: StepUp | undefined
  readonly authorizationDetails: DetailsTerms | undefined
  readonly decision: DecisionTerms | undefined
  /** Parameters of its path that are masked in records and spans. */
  readonly mask: readonly string[] | undefined
  /** Names of the issuers whose tokens it accepts; undefined: all. */
  readonly trustIssuers: ReadonlySet<string> | undefined
  /** Id of the client whose webhooks come here; undefined: `X-API-Key` names the key of the sender. */
  readonly webhookClient: string | undefined
  /** True when the client that the credential names must sign each request. */
  readonly isSigned: boolean
  /** True when the gateway signs responses, in the client's form. */
  readonly signsResponses: boolean
  readonly signsRequests: boolean
  /** Name of its upstream group. */
  readonly upstream: string
  /** Time for a whole exchange upstream, to the last byte of the response; undefined: no limit. */
  readonly timeoutMs: number | undefined
  readonly idleTimeoutMs: number
  readonly maxBodyBytes: number
  /** True when an authorized client certificate goes upstream in `Client-Cert` (RFC 9440). */
  readonly clientCert: boolean
  readonly screening: Screening | undefined
  /** True when authentication and authorization are decided, counted and logged, but refuse nobody. */
  readonly isShadow: boolean
  /** Undefined: an idempotency key goes upstream like any header. */
  readonly idempotency: IdempotencyTerms | undefined
  /** Undefined: the edge rules hold as they are. */
  readonly leniency: Leniency | undefined
  readonly cors: Cors | undefined
  /** Changes to its requests, beside those of every route. */
  readonly sending: SendingPolicy | undefined
  /** Changes to the service's responses, beside those of every route. */
  readonly forwarded: ForwardedPolicy | undefined
  /** Header lines of every response: the mandatory ones and what the route adds. */
  readonly responseLines: string
  /** Operations that validate requests, by method. */
  readonly operations:
    | Readonly<Record<string, { readonly path: string; readonly pointer: string }>>
    | undefined
  /** File and pointer of the row's operation; undefined: gateway.json has the row. */
  readonly documentedAt: string | undefined
  /** Key → index of the row of `openapi.rows` that sets it. */
  readonly laidAt: Readonly<Record<string, number>> | undefined
}

/** An OpenAPI document in force. Plain data. */
export interface OpenApiSettings {
  readonly file: string
  /** SHA-256 of its text. */
  readonly hash: string
  /** With schemas of JSON Schema 2020-12; undefined: requests are not validated. */
  readonly document: object | undefined
  /** A sentence for each pattern that is not checked. */
  readonly skippedPatterns: readonly string[]
}

export type TokenAlgorithm = NonNullable<WrittenGateway['algorithms']>[number]

/** An issuer of `issuers`. */
export interface FurtherIssuer
  extends Omit<
    WrittenGateway['issuers'][number],
    'algorithms' | 'tokens' | 'clockTolerance' | 'introspection'
  > {
  readonly algorithms: readonly TokenAlgorithm[]
  readonly tokens: TokenDialect
  readonly clockToleranceMs: number
  /** Undefined: the issuer is not asked about tokens. */
  readonly introspection?: IntrospectionSettings | undefined
}

/** Introspection of an issuer's tokens (RFC 7662). Files are relative to the working directory. */
export interface IntrospectionSettings extends Omit<WrittenIntrospection, 'cache' | 'negativeCache'> {
  /** 0: not cached. */
  readonly cacheMs: number
  readonly negativeCacheMs: number
}

export type IssuerSettings = Omit<FurtherIssuer, 'scopes'>

interface DpopSettings extends Omit<WrittenGateway['dpop'], 'publicUrls'> {
  /** The `htu` of a proof must be one of these, followed by the path of the request. */
  readonly publicUrls: readonly string[]
}

export type TlsKeys = NonNullable<WrittenGateway['tls']>

/** The public HTTPS listener. Files are relative to the working directory. */
export interface TlsSettings extends TlsKeys {
  readonly port: number
  readonly certFile: string
  readonly keyFile: string
  readonly ocspFetch: boolean
}

export type Durability = WrittenAudit['durability']

export type AuditRetention = NonNullable<WrittenAudit['retention']>

export type AuditBucket = NonNullable<NonNullable<WrittenAudit['ship']>['s3']>

/** `audit` of the file, with the keys and certificates that it names. */
export interface AuditSettings extends Omit<WrittenAudit, keyof AttestationSettings>, AttestationSettings {
  /** SHA-256 of the file that `sealKeyFile` names. */
  readonly sealKey?: string | undefined
}

/** Settings that the file does not have, or has in another form. */
interface OwnSettings extends IssuerSettings {
  readonly configFile: string
  readonly limitsFile: string
  /** Undefined: no route accepts machine clients, and GATEWAY_CLIENTS is not set. */
  readonly clientsFile: string | undefined
  /** Undefined: plain HTTP only. The HTTPS listener has the host of the plain one. */
  readonly tls: TlsSettings | undefined
  /** At least one: `http://host:port`, `https://host:port`, `unix:/path.sock`; or all `h2c://…`, `h2://…`. */
  readonly upstream: readonly string[]
  /** Never shown. */
  readonly upstreamTls: UpstreamTlsFiles
  /** The keys of `signing` in PEM, the private one first. Never shown. */
  readonly signingKeys: readonly string[]
  /** `X-Gateway-Secret` of requests upstream. Never logged. */
  readonly upstreamSecret: string | undefined
  /** Lines of `idempotencyKeyFile`. Never logged. */
  readonly idempotencyKeys: readonly string[] | undefined
  /** Line of `maskKeyFile`. Never logged. */
  readonly maskKey: string | undefined
  readonly issuers: readonly FurtherIssuer[]
  /** True when nobody set `issuer`, so that it is the demo's. */
  readonly issuerIsDefault: boolean
  readonly dpop: DpopSettings
  /** An address is blocked after `failures` bad credentials in the window; never if `failures` is 0. */
  readonly authThrottle: { readonly failures: number; readonly windowMs: number }
  readonly addressRate: { readonly requests: number; readonly windowMs: number } | undefined
  readonly interactionId: boolean
  readonly audit: AuditSettings
  /** Where gateways share their counts; undefined: each counts in its memory. */
  readonly store: StoreSettings | undefined
  readonly tracing: TracingSettings | undefined
  readonly trustedProxies: BlockList | undefined
  readonly clientCertProxies: BlockList | undefined
  /** In lower case. */
  readonly allowedFieldNames: ReadonlySet<string>
  readonly memoryProfile: MemoryProfile
  readonly reusePort: boolean
  readonly addresses: AddressList | undefined
  /** Exceptions from the edge rules that at least one route has. */
  readonly leniency: Leniency | undefined
  /** Header lines of responses to requests without a route. */
  readonly responseLines: string
  readonly routes: readonly Route[]
  readonly openapi: OpenApiSettings | undefined
}

/** The environment overrides the file, the file overrides the defaults. */
export interface Settings
  extends OwnSettings,
    Omit<
      WrittenGateway,
      | keyof OwnSettings
      | '$schema'
      | 'upstreamSecretFile'
      | 'clockTolerance'
      | 'maintenance'
      | 'responseHeaders'
      | 'maxBodyBytes'
    > {}
