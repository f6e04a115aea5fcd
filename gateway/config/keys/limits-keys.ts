import { Type } from 'typebox'
import { anyText, byName, choice, file, integer, key, keys, list, span, TEXT, text } from './key-types.ts'
import { ONE_LINE } from './shared-keys.ts'

const NAME = {
  pattern: '^[A-Za-z0-9][A-Za-z0-9._~:@+-]{0,63}$',
  patternErrorMessage:
    'must be 1 to 64 characters of A-Z a-z 0-9 . _ ~ : @ + - and begin with a letter or a digit',
}

const BOUND = {
  limit: integer('Requests let through in any window. A refused request consumes nothing.', {
    range: [1, 1_000_000_000],
    required: true,
    examples: [5, 60, 1000],
  }),
  window: span('smhd', 'A sliding window: a whole number with s, m, h or d, at most 366d.', {
    required: true,
    examples: ['1m', '1h', '1d'],
  }),
}

export const LIMIT_KEYS = keys({
  path: text(
    'An exact path, a prefix that ends in `/*`, or a template such as `/users/{id}/cards`. Letter case and a closing slash make no difference. `/x/*` covers /x and everything below it.',
    { required: true, maxLength: 1024, examples: ['/api/login', '/api/users/*', '/api/users/{id}', '/*'] },
  ),
  limit: Type.Optional(BOUND.limit),
  window: Type.Optional(BOUND.window),
  windows: list(
    keys(BOUND),
    'Several windows instead of `limit` and `window`. A request counts in all or in none.',
    {
      minItems: 2,
      maxItems: 4,
      examples: [
        [
          { limit: 5, window: '1m' },
          { limit: 20, window: '1h' },
        ],
      ],
    },
  ),
  cost: integer('How many hits a request counts for, in each window. No `limit` of the row may be smaller.', {
    range: [1, 1000],
    default: 1,
    examples: [5],
  }),
  purpose: text('Why the limit exists; a refused caller reads it in the response.', {
    required: true,
    ...ONE_LINE,
    examples: ['Slows down the guessing of passwords'],
  }),
  name: anyText(
    'What the RateLimit header fields and the metrics call this limit; unique. With `windows`, `-` and the window are added. Default: the last fixed segment of the path (`users` for /api/users/*, `all` for /*, `root` for /).',
    {
      ...NAME,
      examples: ['login', 'users-read'],
    },
  ),
  methods: list(TEXT, 'The methods that count. GET includes HEAD. Default: every method.', {
    minItems: 1,
    maxItems: 40,
    uniqueItems: true,
    examples: [['POST'], ['GET']],
  }),
  per: choice(
    ['caller', 'user', 'client', 'client+user', 'address'],
    'Whom the limit counts. `caller` and `user`: the user; if there is none, the client (a machine, or the app of a token), else the address. `client`: the client, all its users together; without a client, as `user`. `client+user`: each user of each client; if one is missing, the other. `address`: the address.',
    { default: 'caller' },
  ),
  mode: choice(
    ['enforce', 'shadow'],
    '`enforce` refuses what is over the limit with 429. `shadow` counts but never refuses.',
    { default: 'enforce' },
  ),
  onStoreFailure: choice(
    ['local', 'deny', 'allow'],
    'While the shared store is away: `local` counts in this gateway, `deny` refuses, `allow` lets pass.',
    { default: 'local' },
  ),
})

const PLANS = byName(
  keys({
    factor: key(
      Type.Number({ minimum: 0.01, maximum: 1000 }),
      'Multiplies each `limit`; the product is rounded down, and at least 1.',
      { required: true, examples: [5, 0.5] },
    ),
  }),
)

export const LIMITS_FILE = file(
  'limits',
  'How many requests a caller may make in a time window. Read again when the file changes; a file with a fault changes nothing.',
  {
    limits: list(
      LIMIT_KEYS,
      'One row per limit. The row with the most specific path counts a request: an exact path, else the template or prefix with more text before its first `{` or `*`; on a tie the template.',
      {
        required: true,
        maxItems: 10_000,
        examples: [
          [
            {
              path: '/api/login',
              limit: 5,
              window: '1m',
              purpose: 'Slows down the guessing of passwords',
            },
          ],
        ],
      },
    ),
    overall: list(
      LIMIT_KEYS,
      'Rows like those of `limits`. Every row whose path covers a request counts it, in addition to the row of `limits`. A refused request counts in none. Not if GATEWAY_STORE is a cluster.',
      {
        maxItems: 100,
        default: [],
        examples: [
          [{ path: '/*', limit: 10_000, window: '1d', per: 'client', purpose: 'The daily quota of an app' }],
        ],
      },
    ),
    plans: key(
      {
        ...PLANS,
        propertyNames: {
          ...NAME,
          patternErrorMessage: `must have names that are ${NAME.patternErrorMessage.slice(8)}`,
        },
      } as typeof PLANS,
      'Plans by name. They multiply the limits of clients with that `plan` in clients.json, in rows whose `per` is `caller`, `client` or `client+user`.',
      { maxProperties: 100, default: {}, examples: [{ gold: { factor: 5 } }] },
    ),
  },
)
