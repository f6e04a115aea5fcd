import { ACR } from './bench-tokens.ts'
import type { Contender } from './contender.ts'
import { type Additions, gateway } from './contenders/countersign.ts'
import { withReceiver } from './contenders/with-receiver.ts'
import type { LoadRequest } from './load-job.ts'
import type { Entry, Scenario } from './scenarios.ts'

const CORS_ORIGIN = 'https://app.example'
/** Networks without the caller, so that every look-up goes to the end. */
const NETWORKS = Array.from({ length: 200 }, (_, index) => `10.${index}.0.0/16`)

const ROW = { methods: ['GET'], auth: ['bearer'], scopes: ['a:r'] }
const HEADER = { 'X-Env': 'prod' }

const text = (maxLength: number) => ({ type: 'string', minLength: 1, maxLength })
/** Describes the GET and the POST as such documents usually do. */
const OPENAPI = {
  openapi: '3.1.0',
  security: [],
  paths: {
    '/api/balance': {
      get: {
        parameters: [
          { in: 'query', name: 'currency', schema: { type: 'string', pattern: '^[A-Z]{3}$' } },
          { in: 'header', name: 'X-Request-ID', schema: text(128) },
        ],
      },
    },
    '/api/transfer': {
      post: {
        requestBody: {
          required: true,
          content: {
            'application/json': {
              schema: {
                type: 'object',
                required: ['to', 'amountMinor', 'currency'],
                additionalProperties: false,
                properties: {
                  to: { type: 'string', pattern: '^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$' },
                  amountMinor: { type: 'integer', minimum: 1 },
                  currency: { enum: ['EUR', 'USD', 'GBP'] },
                  reference: text(255),
                },
              },
            },
          },
        },
      },
    },
  },
}

/**
 * The gateway with nothing on, then with one feature at a time.
 *
 * @param post the request with a body that some entries send
 */
export function features(root: string, post: Partial<LoadRequest>) {
  const add = (name: string, additions: Additions, request: Partial<LoadRequest> = {}): Entry =>
    entry({ ...gateway({ name, root, additions }), request })
  const openapi = { openApi: OPENAPI }
  const postOnly = 'POST with nothing on'
  return {
    entries: [
      add('nothing on', {}),
      entry(withReceiver(gateway({ name: 'tracing, every request', root }))),
      add('OpenAPI validation, GET', openapi),
      add('CORS', { route: { cors: { origins: [CORS_ORIGIN] } } }, { fields: [`Origin: ${CORS_ORIGIN}`] }),
      add('address lists of 200', {
        config: { addresses: { deny: NETWORKS } },
        route: { addresses: { deny: NETWORKS } },
      }),
      add('address rate', { config: { addressRate: { requests: 100_000_000, window: '1m' } } }),
      add('circuit breaker and retry budget', {
        config: { upstreams: { default: { breaker: { failurePercent: 50 }, retry: {} } } },
      }),
      add('`maxInFlight` of the upstream group', {
        config: { upstreams: { default: { maxInFlight: 1000 } } },
      }),
      add('path rewritten and header set', {
        config: {
          routes: [
            {
              ...ROW,
              path: '/api/balance',
              rewrite: { path: '/api/balance' },
              requestHeaders: { set: HEADER },
            },
          ],
        },
      }),
      add('parameter masked', { config: { routes: [{ ...ROW, path: '/api/{name}', mask: ['name'] }] } }),
      add('acr and maxAuthAge', { route: { acr: [ACR], maxAuthAge: '1h' } }),
      introspecting(root),
      // Rightly lets a forged token through.
      entry({
        ...gateway({ name: 'shadow mode', root, additions: { route: { mode: 'shadow' } } }),
        authenticates: false,
      }),
      add(postOnly, {}, post),
      add('POST with OpenAPI validation', openapi, post),
      add(
        'POST with idempotency key',
        { route: { idempotency: { required: true, keep: '1m', maxKeysPerCaller: 1_000_000 } } },
        { ...post, fields: ['Idempotency-Key: REQUEST-NUMBER--'] },
      ),
    ],
    references: [postOnly],
  } satisfies Partial<Scenario>
}

/**
 * First the request signed by its client, then entries to compare with it.
 *
 * @param post the request with a body
 * @param known tokens seen before
 */
export function signedMessages(root: string, post: Partial<LoadRequest>, known: Partial<LoadRequest>) {
  const add = (name: string, additions: Additions, request: Partial<LoadRequest> = known): Entry =>
    entry({ ...gateway({ name, root, additions }), request: { ...post, ...request } })
  const hasSigningKeys = true
  const request = 'required'
  const signed = { ...known, signed: true }
  const nothing = 'nothing on'
  return {
    entries: [
      add('signed by its client', { hasSigningKeys, route: { signatures: { request } } }, signed),
      add('new token', { hasSigningKeys }, {}),
      add(
        'signed with its response',
        { hasSigningKeys, route: { signatures: { request, response: true } } },
        signed,
      ),
      add(nothing, {}),
      add('keys without signatures', { hasSigningKeys }),
      add('decider asked', { decides: true }),
    ],
    references: [nothing],
  } satisfies Partial<Scenario>
}

/** Asks the issuer about each new token. The benchmark's issuer accepts forged ones, too. */
export function introspecting(root: string): Entry {
  const contender = gateway({ name: 'introspection', root, additions: { introspects: true } })
  return entry({ ...contender, authenticates: false })
}

function entry(contender: Contender): Entry {
  return { name: contender.name, contender, env: {}, programs: 1 }
}
