/** Whose doing a refusal is: the caller's, ours, or the service's behind us. */
export type RefusalSource = 'downstream' | 'gateway' | 'upstream'

interface RefusalKind {
  readonly status: number
  readonly source: RefusalSource
  /** The public sentence, unless the stage that refuses has a more exact one. */
  readonly detail: string
  /** The connection cannot be used further: its framing is in doubt, or it is about to go. */
  readonly closes?: true
}

/**
 * The closed list of answers that the gateway makes itself, each with its stable code. What is said here is public;
 * the cause of a refusal is private and goes to the log only. Each code stands in REFUSALS.md and in the
 * description of the demo's API (backend/gateway-problems.ts) too; tests say when one is missing.
 */
export const REFUSALS = {
  malformed_request: {
    status: 400,
    source: 'downstream',
    detail: 'The request is not well-formed HTTP/1.1.',
    closes: true,
  },
  invalid_framing: {
    status: 400,
    source: 'downstream',
    detail: 'The length of the request body is ambiguous.',
    closes: true,
  },
  invalid_host: {
    status: 400,
    source: 'downstream',
    detail: 'The request needs exactly one valid Host.',
    closes: true,
  },
  invalid_header: {
    status: 400,
    source: 'downstream',
    detail: 'A request header is not acceptable.',
    closes: true,
  },
  invalid_target: { status: 400, source: 'downstream', detail: 'The request target is not acceptable.' },
  token_in_query: {
    status: 400,
    source: 'downstream',
    detail: 'An access token belongs in the Authorization header, not in the query.',
  },
  invalid_credentials: {
    status: 400,
    source: 'downstream',
    detail: 'The Authorization header is not well-formed.',
  },
  missing_token: { status: 401, source: 'downstream', detail: 'This needs an access token.' },
  invalid_token: { status: 401, source: 'downstream', detail: 'The access token is not valid.' },
  invalid_dpop_proof: { status: 401, source: 'downstream', detail: 'The DPoP proof is not valid.' },
  use_dpop_nonce: {
    status: 401,
    source: 'downstream',
    detail: 'The DPoP proof needs a nonce of this server.',
  },
  missing_credentials: { status: 401, source: 'downstream', detail: 'This needs proof of who calls.' },
  invalid_certificate: {
    status: 401,
    source: 'downstream',
    detail: 'The client certificate is not accepted.',
  },
  invalid_signature: {
    status: 401,
    source: 'downstream',
    detail: 'The webhook is not signed as it must be.',
  },
  webhook_replayed: {
    status: 409,
    source: 'downstream',
    detail: 'This very delivery was accepted before.',
  },
  too_many_failures: { status: 429, source: 'downstream', detail: 'Too many bad credentials.' },
  insufficient_scope: { status: 403, source: 'downstream', detail: 'The access token does not permit this.' },
  not_found: { status: 404, source: 'downstream', detail: 'There is nothing at this path.' },
  method_not_allowed: {
    status: 405,
    source: 'downstream',
    detail: 'The method is not allowed at this path.',
  },
  request_timeout: {
    status: 408,
    source: 'downstream',
    detail: 'The request did not arrive in time.',
    closes: true,
  },
  response_timeout: {
    status: 408,
    source: 'downstream',
    detail: 'The response was not taken in time.',
    closes: true,
  },
  body_too_large: {
    status: 413,
    source: 'downstream',
    detail: 'The request body is larger than this path accepts.',
    closes: true,
  },
  target_too_long: { status: 414, source: 'downstream', detail: 'The request target is longer than 8 KiB.' },
  expectation_failed: {
    status: 417,
    source: 'downstream',
    detail: 'The only expectation supported is 100-continue.',
  },
  address_rate_exceeded: {
    status: 429,
    source: 'downstream',
    detail: 'Too many requests from this address.',
    closes: true,
  },
  limit_exceeded: { status: 429, source: 'downstream', detail: 'Too many requests.' },
  headers_too_large: {
    status: 431,
    source: 'downstream',
    detail: 'The request has more than 100 headers or 16 KiB of them.',
    closes: true,
  },
  internal_fault: { status: 500, source: 'gateway', detail: 'The gateway failed to handle the request.' },
  upstream_unreachable: { status: 502, source: 'upstream', detail: 'The service cannot be reached.' },
  upstream_broken: { status: 502, source: 'upstream', detail: 'The service broke off its answer.' },
  upstream_malformed: {
    status: 502,
    source: 'upstream',
    detail: 'The service gave an answer that cannot be passed on.',
  },
  keys_unavailable: {
    status: 503,
    source: 'upstream',
    detail: 'Access tokens cannot be verified at the moment.',
  },
  webhooks_unavailable: {
    status: 503,
    source: 'gateway',
    detail: 'Webhooks cannot be accepted at the moment.',
  },
  limits_unavailable: {
    status: 503,
    source: 'gateway',
    detail: 'Requests cannot be counted at the moment.',
  },
  sessions_unavailable: {
    status: 503,
    source: 'gateway',
    detail: 'The end of a session cannot be recorded at the moment.',
  },
  draining: { status: 503, source: 'gateway', detail: 'The gateway is stopping.', closes: true },
  overloaded: {
    status: 503,
    source: 'gateway',
    detail: 'The gateway has too many requests in flight.',
    closes: true,
  },
  loop_detected: {
    status: 508,
    source: 'gateway',
    detail: 'The request has come round: the service behind the gateway leads back to it.',
  },
  audit_unavailable: {
    status: 503,
    source: 'gateway',
    detail: 'The audit trail cannot be written, so no request is accepted.',
  },
  upstream_timeout: { status: 504, source: 'upstream', detail: 'The service did not answer in time.' },
} as const satisfies Record<string, RefusalKind>

export type RefusalCode = keyof typeof REFUSALS

/** An answer made by us instead of the upstream. */
export interface Refusal {
  readonly code: RefusalCode
  readonly status: number
  /** Public sentence: the problem's `detail`. */
  readonly detail: string
  /** Further answer headers, flat: name, value, name, value. */
  readonly headers: readonly string[]
  readonly closes: boolean
  /** For the log only. */
  readonly cause: string | undefined
}

const NO_HEADERS: readonly string[] = []

/** Makes the refusal of a code; `detail` replaces the public sentence, `cause` stays inside. */
export function refusal(
  code: RefusalCode,
  more: { readonly detail?: string; readonly headers?: readonly string[]; readonly cause?: string } = {},
): Refusal {
  const kind: RefusalKind = REFUSALS[code]
  return {
    code,
    status: kind.status,
    detail: more.detail ?? kind.detail,
    headers: more.headers ?? NO_HEADERS,
    closes: kind.closes === true,
    cause: more.cause,
  }
}
