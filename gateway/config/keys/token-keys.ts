import { type Static, Type } from 'typebox'
import { byName, choice, integer, key, keys, list, span, TEXT, text, type Written } from './key-types.ts'

const PRESETS = ['rfc9068', 'entra', 'okta', 'auth0', 'cognito', 'keycloak', 'ping'] as const
export type DialectPreset = (typeof PRESETS)[number]

const CLAIM_VALUE = Type.Unsafe<string | number | boolean>({ type: ['string', 'number', 'boolean'] })
const TERMS = byName(
  Type.Unsafe<string | number | boolean | readonly (string | number | boolean)[]>({
    type: ['string', 'number', 'boolean', 'array'],
    minItems: 1,
    maxItems: 16,
    items: CLAIM_VALUE,
  }),
)
const AT_MOST = { maxItems: 8, uniqueItems: true } as const

const DIALECT = keys({
  preset: choice(PRESETS, 'The preset for keys that this object does not have.', { default: 'rfc9068' }),
  types: list(
    Type.String({ maxLength: 100 }),
    'Allowed values of the header `typ`, with or without `application/`, in any letter case; `""`: no `typ`. Unless `typ` is `at+jwt`, the token must be no ID token. So it must have a claim of `scopeClaims` or `machine`, and no `nonce`, `at_hash` or `c_hash`. Or a claim of `require` must have the value `access`, `access_token`, `Bearer` or `DPoP`.',
    { ...AT_MOST, minItems: 1, examples: [['JWT', 'at+jwt']] },
  ),
  scopeClaims: list(TEXT, 'The claims with scopes, each a text with spaces or a list. All of them count.', {
    ...AT_MOST,
    examples: [['scp', 'roles']],
  }),
  clientClaims: list(TEXT, 'The claims that may name the app. The first that the token has counts.', {
    ...AT_MOST,
    examples: [['azp', 'client_id']],
  }),
  subjectClaims: list(TEXT, 'The claims that may name the user. The first that the token has counts.', {
    ...AT_MOST,
    minItems: 1,
    examples: [['oid', 'sub']],
  }),
  idClaims: list(
    TEXT,
    "The claims that may hold the token's id. The token must have one, unless the list is empty.",
    {
      ...AT_MOST,
      examples: [['uti'], []],
    },
  ),
  audienceClaim: text(
    'The claim that must name the audience. If the token has an `aud` too, it must name the audience as well.',
    {
      examples: ['client_id'],
    },
  ),
  require: key(
    TERMS,
    'Claims that must have exactly this value, or one of a list. A claim that the preset requires stays required, unless it is named here.',
    { maxProperties: 16, examples: [{ token_use: 'access' }] },
  ),
  machine: key(
    TERMS,
    "Claims that mark a machine's token, each with a value or a list of values: such a token has no user. A token whose user and app are the same has no user either.",
    { maxProperties: 16, examples: [{ idtyp: 'app' }] },
  ),
  maxLifetime: span(
    'smhd',
    'The longest lifetime of a token (`exp` − `iat`), at most 30d. Ended sessions are remembered for this time. Default: 24h.',
    { examples: ['30h'] },
  ),
  maxChars: integer('The longest token, in characters. Default: 8192.', {
    range: [1024, 32_768],
    examples: [16_384],
  }),
})

export const TOKENS = Type.Unsafe<DialectPreset | Partial<Static<typeof DIALECT>>>({
  ...DIALECT,
  type: ['string', 'object'],
  pattern: `^(?:${PRESETS.join('|')})$`,
  patternErrorMessage: `must be one of ${PRESETS.join(', ')}, or an object`,
})

export type WrittenTokens = Written<typeof TOKENS>
