import { STATUS_CODES } from 'node:http'
import { Type } from 'typebox'
import gatewayProblems from './gateway-problems.json' with { type: 'json' }

/** One fault of a request: its field, such as `mrz[1]`, and what is wrong with it. */
export interface FieldFault {
  readonly field: string
  readonly reason: string
}

/** All problems of the backend: code, status and public sentence. Codes are never reused. */
const PROBLEMS = {
  invalid_request: [400, 'The request has fields that are missing, unknown or not valid.'],
  malformed_body: [400, 'The body is not a JSON document that can be accepted.'],
  malformed_target: [400, 'The request target cannot be decoded.'],
  malformed_message: [400, 'This is not an HTTP message that can be read.'],
  unauthenticated: [401, 'This needs a signed-in user.'],
  wrong_credentials: [401, 'The e-mail address or the password is wrong.'],
  invalid_refresh_token: [401, 'The refresh token is unknown, expired or revoked. Log in again.'],
  refresh_token_reused: [401, 'The refresh token was used before. Its session is revoked. Log in again.'],
  forbidden: [403, 'The caller may not do this.'],
  gateway_required: [403, 'This service listens to its gateway only.'],
  password_required: [403, 'This change of your own record needs currentPassword.'],
  wrong_password: [403, 'The password in currentPassword is wrong.'],
  no_session: [403, 'The credential of this request does not belong to a session.'],
  not_found: [404, 'There is nothing here.'],
  method_not_allowed: [405, 'This method is not offered here.'],
  request_timeout: [408, 'The request did not arrive in time.'],
  email_taken: [409, 'Another user has this e-mail address.'],
  idempotency_key_in_flight: [
    409,
    'A request with this Idempotency-Key is still being worked on. Ask again later.',
  ],
  body_too_large: [413, 'The body is larger than what is accepted here.'],
  unsupported_media_type: [415, 'The body must be application/json.'],
  idempotency_key_reused: [
    422,
    'This Idempotency-Key was used with another payload. Use a new key for a new request.',
  ],
  insufficient_funds: [422, 'The account does not have this amount available.'],
  unknown_destination: [422, 'No open account has the id in toAccountId.'],
  same_account: [422, 'The destination is the account that the money comes from.'],
  currency_mismatch: [422, 'Both accounts must be in the currency of the transfer.'],
  too_many_attempts: [429, 'Too many attempts. Try again later.'],
  too_many_webhooks: [
    429,
    'No more webhooks of this sender can be kept at this moment. Send this one again later.',
  ],
  headers_too_large: [431, 'The header section is larger than what is accepted here.'],
  internal: [
    500,
    'The service failed on this request, and it is unknown whether it took effect. Send it again with the same Idempotency-Key; without one, check first whether it took effect.',
  ],
  database_unavailable: [
    503,
    'The database cannot be reached at this moment. Try again later. If the request changes something, send it with the same Idempotency-Key; without one, check first whether it took effect.',
  ],
  outcome_unknown: [
    503,
    'The database went away before it confirmed this request: it is unknown whether it took effect. Send it again with the same Idempotency-Key; without one, check first whether it took effect.',
  ],
  busy: [503, 'There is too much to do at this moment. Nothing was changed. Try again.'],
} as const

export type ProblemCode = keyof typeof PROBLEMS

/** Ends the request with a problem when a handler throws it. */
export class Problem extends Error {
  override name = 'Problem'
  readonly code: ProblemCode
  readonly status: number
  readonly errors: readonly FieldFault[] | undefined
  readonly headers: Readonly<Record<string, string>>

  constructor(
    code: ProblemCode,
    options: {
      readonly errors?: readonly FieldFault[]
      readonly headers?: Readonly<Record<string, string>>
      readonly cause?: unknown
    } = {},
  ) {
    const [status, detail] = PROBLEMS[code]
    super(detail, { cause: options.cause })
    this.code = code
    this.status = status
    this.errors = options.errors
    // RFC 9110 section 15.5.2 requires a challenge in a 401.
    const own: Record<string, string> = {}
    if (this.status === 401) own['www-authenticate'] = 'Bearer realm="countersign"'
    // After a lost COMMIT there is no Retry-After: a client that obeys it could do the work twice.
    if (this.status === 503 && code !== 'outcome_unknown') own['retry-after'] = '1'
    this.headers = { ...own, ...options.headers }
  }
}

export function invalidField(field: string, reason: string): Problem {
  return new Problem('invalid_request', { errors: [{ field, reason }] })
}

export const PROBLEM_MEDIA_TYPE = 'application/problem+json'

export function problemBody(problem: Problem, requestId: string): string {
  return JSON.stringify({
    type: `urn:countersign:problem:${problem.code}`,
    title: STATUS_CODES[problem.status],
    status: problem.status,
    detail: problem.message,
    code: problem.code,
    requestId,
    errors: problem.errors,
  })
}

/** The gateway's problem codes by status. Schemas name them, because callers see gateway and backend as one API. */
const GATEWAY_CODES: Readonly<Record<number, readonly string[]>> = gatewayProblems

/** Register it once. */
export const ProblemSchema = Type.Object(
  {
    type: Type.String({ examples: ['urn:countersign:problem:invalid_request'] }),
    title: Type.String({ examples: ['Bad Request'] }),
    status: Type.Integer({ examples: [400] }),
    detail: Type.String({ examples: [PROBLEMS.invalid_request[1]] }),
    code: Type.Enum([...new Set([...Object.keys(PROBLEMS), ...Object.values(GATEWAY_CODES).flat()])], {
      examples: ['invalid_request'],
    }),
    requestId: Type.String({ examples: ['0199f4a8-6c1e-7d53-9f0e-0c7c1c6b1f7e'] }),
    errors: Type.Optional(
      Type.Array(
        Type.Object({
          field: Type.String({ examples: ['email'] }),
          reason: Type.String({ examples: ['is required'] }),
        }),
      ),
    ),
  },
  { $id: 'Problem', description: 'A problem (RFC 9457).' },
)

const EVERYWHERE = [400, 429, 500, 502, 503, 504]

/** The content that the API's document shows for each problem. {@link problemResponses} leaves it out. */
export const PROBLEM_CONTENT = { [PROBLEM_MEDIA_TYPE]: { schema: Type.Ref('Problem#') } }

/**
 * The response schemas for the problems of one route and of {@link EVERYWHERE}, without content: with it, fastify would
 * compile a hundred serializers at each start, and {@link problemBody} needs none.
 */
export function problemResponses(...statuses: number[]): Record<number, unknown> {
  const responses = [...new Set([...statuses, ...EVERYWHERE])].map((status) => {
    const own = Object.entries(PROBLEMS).flatMap(([code, [its]]) => (its === status ? [code] : []))
    const codes = new Set([...own, ...(GATEWAY_CODES[status] ?? [])])
    return [status, { description: [...codes].join(', '), content: {} }]
  })
  return Object.fromEntries(responses)
}
