/**
 * What the gateway in front answers by itself, by status: for callers it is one API, so the description of this one names
 * these codes too. A test compares them with the gateway's own list (gateway/e2e/openapi.test.ts).
 */
export const GATEWAY_CODES: Readonly<Record<number, readonly string[]>> = {
  400: [
    'malformed_request',
    'invalid_framing',
    'invalid_host',
    'invalid_header',
    'invalid_target',
    'token_in_query',
    'invalid_credentials',
  ],
  401: [
    'missing_token',
    'invalid_token',
    'invalid_dpop_proof',
    'use_dpop_nonce',
    'missing_credentials',
    'invalid_certificate',
    'invalid_signature',
  ],
  403: ['insufficient_scope'],
  404: ['not_found'],
  405: ['method_not_allowed'],
  408: ['request_timeout', 'response_timeout'],
  409: ['webhook_replayed'],
  413: ['body_too_large'],
  414: ['target_too_long'],
  417: ['expectation_failed'],
  429: ['too_many_failures', 'address_rate_exceeded', 'limit_exceeded'],
  431: ['headers_too_large'],
  500: ['internal_fault'],
  502: ['upstream_unreachable', 'upstream_broken', 'upstream_malformed'],
  503: [
    'keys_unavailable',
    'webhooks_unavailable',
    'limits_unavailable',
    'sessions_unavailable',
    'draining',
    'overloaded',
    'audit_unavailable',
  ],
  504: ['upstream_timeout'],
  508: ['loop_detected'],
}
