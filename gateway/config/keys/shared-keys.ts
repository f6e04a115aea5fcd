import { Type } from 'typebox'
import { anyText, keys } from './key-types.ts'

/** A scope (RFC 6749 section 3.3). */
export const SCOPE = Type.String({
  pattern: '^[\\x21\\x23-\\x5B\\x5D-\\x7E]+$',
  patternErrorMessage: 'must be a scope of RFC 6749: visible ASCII, no spaces, double quotes or backslashes',
})

export const SPAN_OR_OFF = Type.String({
  pattern: '^(?:off|[1-9][0-9]*[sm])$',
  patternErrorMessage: 'must be "off", or a whole number followed by s or m, such as "30s" or "1m"',
})

export const ONE_LINE = {
  maxLength: 200,
  pattern: '^(?=.*\\S)[^\\p{C}\\p{Zl}\\p{Zp}]*$',
  patternErrorMessage: 'must be one line of printable text',
} as const

/** The place of one secret, never the secret itself: `env` or `file`. */
export const SECRET = Type.Unsafe<{ env: string } | { file: string }>({
  ...keys({
    env: anyText('The variable, in capital letters, that holds the secret. Read when the gateway starts.', {
      pattern: '^[A-Z_][A-Z0-9_]{0,127}$',
      patternErrorMessage: 'must be the name of an environment variable, in capitals',
      examples: ['PARTNER_SECRET'],
    }),
    file: anyText(
      'The file, whose one line is the secret: `/…`, or `./…` or `../…` from the working directory.',
      {
        maxLength: 1024,
        pattern: '^(?:\\.{0,2}/)[^\\p{C}]+$',
        patternErrorMessage: 'must be a path that begins with "/", "./" or "../"',
        examples: ['/run/secrets/partner'],
      },
    ),
  }),
  minProperties: 1,
  maxProperties: 1,
  errorMessage:
    'must be {"env": "VARIABLE"} or {"file": "/path"}: a secret stands in the environment or in a file of its own, never in this one',
})
