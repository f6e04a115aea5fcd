type RefusalSource = 'downstream' | 'gateway' | 'upstream'

interface RefusalKind {
  readonly status: number
  readonly source: RefusalSource
  /** Public; a stage may give a more exact sentence. */
  readonly detail: string
  /** Closes the connection: its framing is in doubt, or it is about to end. */
  readonly closes?: true
}

/** Responses of the gateway itself, by stable codes. `npm run schemas` makes docs/reference/refusals.md of them. */
export const REFUSALS = {
  ...from('downstream', {
    method_unknown: { status: 501, detail: 'HTTP has no registered method of this name.' },
    malformed_request: { status: 400, detail: 'The request is not well-formed HTTP.', closes: true },
    invalid_framing: { status: 400, detail: 'The length of the request body is ambiguous.', closes: true },
    invalid_host: { status: 400, detail: 'The request needs exactly one valid Host.', closes: true },
    invalid_header: { status: 400, detail: 'A request header is not acceptable.', closes: true },
    method_override: { status: 400, detail: 'A request header asks for another method.' },
    invalid_target: { status: 400, detail: 'The request target is not acceptable.' },
    token_in_query: {
      status: 400,
      detail: 'An access token belongs in the Authorization header, not in the query.',
    },
    invalid_credentials: { status: 400, detail: 'The Authorization header is not well-formed.' },
    schema_violation: { status: 400, detail: 'The request does not fit the description of the API.' },
    missing_token: { status: 401, detail: 'An access token is needed.' },
    invalid_token: { status: 401, detail: 'The access token is not valid.' },
    insufficient_user_authentication: {
      status: 401,
      detail: 'The user must be authenticated once more, or in another way.',
    },
    invalid_dpop_proof: { status: 401, detail: 'The DPoP proof is not valid.' },
    use_dpop_nonce: { status: 401, detail: 'The DPoP proof needs a nonce from this server.' },
    missing_credentials: { status: 401, detail: 'A credential is needed.' },
    invalid_certificate: { status: 401, detail: 'The client certificate is not accepted.' },
    missing_signature: { status: 401, detail: 'The request must be signed.' },
    invalid_signature: { status: 401, detail: 'The signature is not valid.' },
    digest_mismatch: { status: 401, detail: 'Content-Digest is not that of the request body.' },
    idempotency_key_missing: { status: 400, detail: 'An idempotency key is needed.' },
    idempotency_key_invalid: { status: 400, detail: 'The idempotency key is not well-formed.' },
    idempotency_in_progress: {
      status: 409,
      detail: 'A request with this idempotency key is in progress.',
    },
    idempotency_response_not_kept: {
      status: 409,
      detail:
        'The request with this idempotency key was completed; its response was too long to be kept, or there was no room for it.',
    },
    idempotency_unknown: {
      status: 409,
      detail: 'It is not known whether the request with this idempotency key was carried out.',
    },
    idempotency_key_reused: {
      status: 422,
      detail: 'This idempotency key was used for another request.',
    },
    idempotency_too_many_keys: { status: 429, detail: 'The caller may not have more idempotency keys.' },
    webhook_replayed: { status: 409, detail: 'This webhook was accepted before.' },
    too_many_failures: { status: 429, detail: 'Too many invalid credentials from this address.' },
    insufficient_scope: { status: 403, detail: 'The access token does not permit this.' },
    authorization_details_mismatch: {
      status: 403,
      detail: 'The request is not what the access token was approved for.',
    },
    decision_denied: { status: 403, detail: 'The request is not permitted.' },
    address_refused: { status: 403, detail: 'Requests from this address are not accepted.' },
    origin_not_allowed: { status: 403, detail: 'Pages of this origin may not send such requests.' },
    not_found: { status: 404, detail: 'No route matches this path.' },
    method_not_allowed: { status: 405, detail: 'The method is not allowed at this path.' },
    request_timeout: { status: 408, detail: 'The request did not arrive in time.', closes: true },
    response_timeout: { status: 408, detail: 'The response was not read in time.', closes: true },
    body_too_large: {
      status: 413,
      detail: 'The request body is larger than this path accepts.',
      closes: true,
    },
    target_too_long: { status: 414, detail: 'The request target is longer than 8 KiB.' },
    unsupported_media_type: {
      status: 415,
      detail: 'The description of the API has no such media type for this request.',
    },
    expectation_failed: { status: 417, detail: 'The only expectation supported is 100-continue.' },
    websocket_version: { status: 426, detail: 'The only version of WebSocket supported is 13.' },
    address_rate_exceeded: { status: 429, detail: 'Too many requests from this address.', closes: true },
    limit_exceeded: { status: 429, detail: 'Too many requests.' },
    headers_too_large: {
      status: 431,
      detail: 'The request has more headers than are accepted, or more bytes of them.',
      closes: true,
    },
  }),
  ...from('gateway', {
    internal_fault: { status: 500, detail: 'The gateway failed to handle the request.' },
    webhooks_unavailable: { status: 503, detail: 'Webhooks cannot be accepted at the moment.' },
    proofs_unavailable: { status: 503, detail: 'DPoP proofs cannot be verified at the moment.' },
    idempotency_unavailable: { status: 503, detail: 'Idempotency keys cannot be kept at the moment.' },
    limits_unavailable: { status: 503, detail: 'Requests cannot be counted at the moment.' },
    sessions_unavailable: { status: 503, detail: 'The end of a session cannot be recorded at the moment.' },
    draining: { status: 503, detail: 'The gateway is stopping.', closes: true },
    overloaded: { status: 503, detail: 'The gateway has too many requests in flight.', closes: true },
    maintenance: { status: 503, detail: 'This path is closed for maintenance.' },
    loop_detected: {
      status: 508,
      detail: 'The request has looped: the service behind the gateway leads back to it.',
    },
    audit_unavailable: {
      status: 503,
      detail: 'The audit trail cannot be written, so no request is accepted.',
    },
  }),
  ...from('upstream', {
    upstream_unreachable: { status: 502, detail: 'The service cannot be reached.' },
    upstream_broken: { status: 502, detail: 'The service broke off its response.' },
    upstream_malformed: { status: 502, detail: 'The service sent a response that cannot be forwarded.' },
    upstream_unavailable: {
      status: 503,
      detail: 'The service has failed too often and is given time to recover.',
    },
    keys_unavailable: { status: 503, detail: 'Access tokens cannot be verified at the moment.' },
    introspection_unavailable: {
      status: 503,
      detail: 'The issuer cannot be asked about the access token at the moment.',
    },
    revocation_unavailable: {
      status: 503,
      detail: 'It cannot be checked at the moment whether the client certificate was revoked.',
    },
    decision_unavailable: {
      status: 503,
      detail: 'It cannot be decided at the moment whether the request is permitted.',
    },
    upstream_timeout: { status: 504, detail: 'The service did not respond in time.' },
  }),
}

export type RefusalCode = keyof typeof REFUSALS

export interface Refusal {
  readonly code: RefusalCode
  readonly status: number
  /** Public. */
  readonly detail: string
  /** Names and values in turn. */
  readonly headers: readonly string[]
  readonly closes: boolean
  /** For the log only. */
  readonly cause: string | undefined
  /** For the log only: a client that a credential names, proved or not. */
  readonly client?: string
  /** Public: names of the limits that refuse (draft-ietf-httpapi-ratelimit-headers-11 section 5.1). */
  readonly violatedPolicies?: readonly string[]
}

function from<Code extends string>(
  source: RefusalSource,
  kinds: Readonly<Record<Code, Omit<RefusalKind, 'source'>>>,
): Readonly<Record<Code, RefusalKind>> {
  const entries = Object.entries<Omit<RefusalKind, 'source'>>(kinds)
  const sourced = entries.map(([code, kind]) => [code, { ...kind, source }])
  return Object.fromEntries(sourced)
}

const NO_HEADERS: readonly string[] = []

export function bodyTooLarge(maxBytes: number): Refusal {
  return refusal('body_too_large', {
    detail: `The request body is larger than ${maxBytes} bytes, which is the most that this path accepts.`,
    cause: `longer than ${maxBytes} bytes (maxBodyBytes; never more than 1 MiB where the gateway reads the body itself)`,
  })
}

/** @param more `detail` and `status` replace those of the code */
export function refusal(
  code: RefusalCode,
  more: Partial<Pick<Refusal, 'headers' | 'status' | 'violatedPolicies'>> & {
    readonly detail?: string | undefined
    readonly cause?: string | undefined
    readonly client?: string | undefined
  } = {},
): Refusal {
  const kind: RefusalKind = REFUSALS[code]
  return {
    code,
    status: more.status ?? kind.status,
    detail: more.detail ?? kind.detail,
    headers: more.headers ?? NO_HEADERS,
    closes: kind.closes === true,
    cause: more.cause,
    ...(more.client !== undefined && { client: more.client }),
    ...(more.violatedPolicies && { violatedPolicies: more.violatedPolicies }),
  }
}

/** What a stage that may wait decides; undefined: the request goes on. */
export type Outcome = Refusal | undefined | Promise<Refusal | undefined>

/** Goes on with a value: at once, unless it is a promise. */
export function andThen<Value, Result>(
  value: Value | Promise<Value>,
  goOn: (value: Value) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(goOn) : goOn(value)
}

/** Cheaper than a promise for each request. */
export interface PendingRefusal {
  /** @param run called once */
  whenKnown(run: (outcome: Refusal | Error | undefined) => void): void
}
