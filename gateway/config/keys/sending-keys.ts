import { Type } from 'typebox'
import { byName, choice, key, keys, list, TEXT, text } from './key-types.ts'

export const FIELD_VALUES = byName(
  Type.String({
    maxLength: 4096,
    pattern: '^[!-~](?:[\\t -~]*[!-~])?$',
    patternErrorMessage: 'must be visible ASCII, with spaces only in between',
  }),
)
const FIELD_NAMES = { minItems: 1, maxItems: 100, uniqueItems: true } as const

const REWRITE = keys(
  {
    prefix: text(
      'For a row whose path ends in `/*`: replaces the part before `/*`. `/` alone removes that part.',
      { maxLength: 1024, examples: ['/v2', '/'] },
    ),
    path: text("For other rows: the whole path. It may contain parameters of the row's path.", {
      maxLength: 1024,
      examples: ['/internal/{id}'],
    }),
  },
  { minProperties: 1 },
)

const REQUEST_HEADERS = keys(
  {
    allow: list(
      TEXT,
      'Headers that go to the service, although by default they are removed or (method overrides) refused. Not headers that the gateway sets itself, or that belong to the connection.',
      { ...FIELD_NAMES, examples: [['X-Auth-Token']] },
    ),
    set: key(
      FIELD_VALUES,
      "Headers for the service, each replacing the client's. Not for secrets, because these values are shown with the configuration.",
      { minProperties: 1, maxProperties: 100, examples: [{ 'X-Env': 'prod' }] },
    ),
    remove: list(TEXT, 'Headers that do not go to the service.', {
      ...FIELD_NAMES,
      examples: [['Cookie']],
    }),
  },
  { minProperties: 1 },
)

const DATE = {
  pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?$',
  patternErrorMessage: 'must be a date such as "2027-01-31", or with a time in UTC "2027-01-31T12:00:00Z"',
} as const

export const SENDING_KEYS = {
  rewrite: key(
    REWRITE,
    'The path that the service gets; the query stays. Rows, limits, validation, trail and metrics use the path of the request. Default: no change.',
    { examples: [{ prefix: '/v2' }, { path: '/internal/{id}' }] },
  ),
  upstreamHost: text(
    "The Host that the service gets: the client's (`preserve`), the upstream's (`target`), or this host name, with or without a port.",
    { default: 'preserve', maxLength: 260, examples: ['target', 'internal.example'] },
  ),
  rawPath: choice(
    [true, false],
    'Whether the service gets the path unchanged, not in canonical form. A path that is canonical and has no `%` always passes. Others are refused if a service might read them as the path of another row or limit, or if they have more than 1,024 characters. Not with `rewrite`.',
    { default: false },
  ),
  requestHeaders: key(
    REQUEST_HEADERS,
    'Which request headers go to the service, besides the rules for all rows.',
    {
      examples: [{ allow: ['X-Auth-Token'], set: { 'X-Env': 'prod' }, remove: ['Cookie'] }],
    },
  ),
  deprecated: text(
    'Date since which the row should no longer be used, sent as `Deprecation` (RFC 9745) in every response. Default: the header of the service passes.',
    { ...DATE, examples: ['2026-12-31'] },
  ),
  sunset: text(
    'Date at which the row is expected to end, sent as `Sunset` (RFC 8594) in every response. Requests still pass after it. Not before `deprecated`. Default: the header of the service passes.',
    { ...DATE, examples: ['2027-06-30', '2027-06-30T22:00:00Z'] },
  ),
}
