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
  preset: choice(PRESETS, 'What applies where this object says nothing.', { default: 'rfc9068' }),
  types: list(
    Type.String({ maxLength: 100 }),
    'Which `typ` access tokens may have in the header. `application/` may be there or not, and letter case does not matter; `""` stands for none. Unless `typ` is `at+jwt`, a token must prove to be no ID token: it has a claim of `scopeClaims` or `machine` and no `nonce`, `at_hash` or `c_hash`, or a claim of `require` has the value `access`, `access_token`, `Bearer` or `DPoP`.',
    { ...AT_MOST, minItems: 1, examples: [['JWT', 'at+jwt']] },
  ),
  scopeClaims: list(
    TEXT,
    'The claims that hold the scopes, as a text with spaces or as a list. All of them count.',
    { ...AT_MOST, examples: [['scp', 'roles']] },
  ),
  clientClaims: list(TEXT, 'The claims that name the app. The first that is there counts.', {
    ...AT_MOST,
    examples: [['azp', 'client_id']],
  }),
  subjectClaims: list(TEXT, 'The claims that name the user. The first that is there counts.', {
    ...AT_MOST,
    minItems: 1,
    examples: [['oid', 'sub']],
  }),
  idClaims: list(TEXT, 'The claims that name the token. One must be there, unless the list is empty.', {
    ...AT_MOST,
    examples: [['uti'], []],
  }),
  audienceClaim: text('The claim that must name the audience. An `aud` beside it must name it, too.', {
    examples: ['client_id'],
  }),
  require: key(
    TERMS,
    'Claims that must have exactly this value, or one of a list. A claim that the preset requires stays required, unless it is named here.',
    { maxProperties: 16, examples: [{ token_use: 'access' }] },
  ),
  machine: key(
    TERMS,
    'A token that has one of these claims, with this value or one of a list, has no user. A token whose user and app are the same has none either.',
    { maxProperties: 16, examples: [{ idtyp: 'app' }] },
  ),
  maxLifetime: span(
    'smhd',
    'The longest life of a token, `exp` − `iat`, at most 30d. Ended sessions are remembered that long. Default: 24h.',
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
