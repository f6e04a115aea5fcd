import { AUDIENCE } from './bench-tokens.ts'

/** The body's length on most paths. */
export const RESPONSE_BYTES = 120
export const LARGE_PATH = '/api/data'
export const LARGE_RESPONSE_BYTES = 64 * 1024
/** The issuer's introspection (RFC 7662) and its answer. */
export const INTROSPECTION_PATH = '/introspect'
export const INTROSPECTION_ANSWER = JSON.stringify({
  active: true,
  token_type: 'Bearer',
  aud: AUDIENCE,
  sub: 'u10000',
  jti: 'one',
  scope: 'a:r t:w',
})
/** The decider (AuthZEN) and its answer. */
export const DECISION_PATH = '/access/v1/evaluation'
export const DECISION_ANSWER = JSON.stringify({ decision: true })
/** 1 MiB, in a response or a request. */
export const HUGE_PATH = '/api/archive'
export const HUGE_BYTES = 1024 * 1024
