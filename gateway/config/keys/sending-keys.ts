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
      'Takes the place of what stands before `/*` in the path of the row. `/` alone removes it. For a row whose path ends in `/*`.',
      { maxLength: 1024, examples: ['/v2', '/'] },
    ),
    path: text(
      'The whole path, with parameters of the path of the row in it. For a row whose path does not end in `/*`.',
      { maxLength: 1024, examples: ['/internal/{id}'] },
    ),
  },
  { minProperties: 1 },
)

const REQUEST_HEADERS = keys(
  {
    allow: list(
      TEXT,
      'Headers that go to the service although they are otherwise removed, or refused (method overrides). None that the gateway sets itself, or that belongs to the connection.',
      { ...FIELD_NAMES, examples: [['X-Auth-Token']] },
    ),
    set: key(
      FIELD_VALUES,
      "Headers that the service gets in place of the client's. Not for secrets, because the configuration is shown with these values.",
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
    'The path that the service gets; the query stays. Rows, limits, validation, trail and metrics use the path that was asked for. Default: that path.',
    { examples: [{ prefix: '/v2' }, { path: '/internal/{id}' }] },
  ),
  upstreamHost: text(
    "The Host that the service gets: `preserve` is the client's, `target` the upstream's, any other text the name itself, perhaps with a port.",
    { default: 'preserve', maxLength: 260, examples: ['target', 'internal.example'] },
  ),
  rawPath: choice(
    [true, false],
    'Whether the service gets the path byte by byte, not in canonical form. A path is refused if a service may read it as the path of another row or limit, or if it has more than 1,024 characters, unless it is canonical and without `%`. Not with `rewrite`.',
    { default: false },
  ),
  requestHeaders: key(REQUEST_HEADERS, 'Which headers go to the service, besides what holds for all rows.', {
    examples: [{ allow: ['X-Auth-Token'], set: { 'X-Env': 'prod' }, remove: ['Cookie'] }],
  }),
  deprecated: text(
    'Since when the row should not be used: `Deprecation` (RFC 9745) in every response. Default: the header of the service passes.',
    { ...DATE, examples: ['2026-12-31'] },
  ),
  sunset: text(
    'When the row is expected to end: `Sunset` (RFC 8594) in every response. It refuses nothing. Not before `deprecated`. Default: the header of the service passes.',
    { ...DATE, examples: ['2027-06-30', '2027-06-30T22:00:00Z'] },
  ),
}
