import { AUDIENCE } from './bench-tokens.ts'

/** Length of the body with which the upstream responds on most paths. */
export const RESPONSE_BYTES = 120
/** The path with the large response. */
export const LARGE_PATH = '/api/data'
export const LARGE_RESPONSE_BYTES = 64 * 1024
/** Where the issuer of the tokens is asked about them (RFC 7662), and what it answers about each. */
export const INTROSPECTION_PATH = '/introspect'
export const INTROSPECTION_ANSWER = JSON.stringify({
  active: true,
  token_type: 'Bearer',
  aud: AUDIENCE,
  sub: 'u10000',
  jti: 'one',
  scope: 'a:r t:w',
})
/** Where a decider (AuthZEN) is asked, and what it answers to each question. */
export const DECISION_PATH = '/access/v1/evaluation'
export const DECISION_ANSWER = JSON.stringify({ decision: true })
/** The path with 1 MiB, in a response or a request. */
export const HUGE_PATH = '/api/archive'
export const HUGE_BYTES = 1024 * 1024
