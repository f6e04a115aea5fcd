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
    prefix: text('Replaces what stands before `/*` in the path of the row. `/` removes it.', {
      maxLength: 1024,
      examples: ['/v2', '/'],
    }),
    path: text("The whole path, with parameters of the row's path. Not for a row that ends in `/*`.", {
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
      'Headers that go to the service, and are otherwise removed, or refused (method overrides). None that the gateway sets itself, or of the connection.',
      { ...FIELD_NAMES, examples: [['X-Auth-Token']] },
    ),
    set: key(
      FIELD_VALUES,
      "Headers that the service gets in place of the client's. Not for secrets: the values are shown where the configuration is.",
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
    'The path that the service gets; the query stays. Rows, limits, validation, trail and metrics use the path that was asked for.',
    { examples: [{ prefix: '/v2' }, { path: '/internal/{id}' }] },
  ),
  upstreamHost: text(
    "The Host that the service gets: the client's (`preserve`), the upstream's (`target`), or this name, perhaps with a port.",
    { default: 'preserve', maxLength: 260, examples: ['target', 'internal.example'] },
  ),
  rawPath: choice(
    [true, false],
    'Whether the service gets the path byte by byte, not in canonical form. Refused where some reading of it would be that of another row or limit, and where it has more than 1,024 characters and not all are plain. Not with `rewrite`.',
    { default: false },
  ),
  requestHeaders: key(REQUEST_HEADERS, 'Which headers go to the service, besides what holds for all rows.', {
    examples: [{ allow: ['X-Auth-Token'], set: { 'X-Env': 'prod' }, remove: ['Cookie'] }],
  }),
  deprecated: text(
    "Since when the row should not be used: `Deprecation` (RFC 9745) of every response, in place of the service's.",
    { ...DATE, examples: ['2026-12-31'] },
  ),
  sunset: text(
    "When the row is expected to end: `Sunset` (RFC 8594) of every response, in place of the service's. It refuses nothing. Not before `deprecated`.",
    { ...DATE, examples: ['2027-06-30', '2027-06-30T22:00:00Z'] },
  ),
}
