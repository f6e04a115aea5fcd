import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { LONGER } from '../../e2e/long-runs.ts'
import { LinearPattern } from './linear-pattern.ts'
import { beginSteps } from './schema-fits.ts'

const LETTERS = ['a', 'Z', '1', '_', ' ', '\n', '\u00a0', 'é', '😀', '-', '.', '/', ':', '漢']

/** Matches as ECMA-262 does, with `u` if it can. In V8 14 `/[^a]$/u` matches no letter beyond U+FFFF at the start. */
function fitsByEcma(source: string, text: string): boolean {
  try {
    return new RegExp(`^(?:[^]*?)(?:${source})`, 'u').test(text)
  } catch {
    // Without the flag a character is one unit of UTF-16, so a symbol of one unit replaces the emoji of two.
    return new RegExp(source).test(text.replaceAll('😀', '☃'))
  }
}

/** Patterns like those of public descriptions of APIs. They are written from memory, so none is a quotation. */
const PUBLIC: readonly (readonly [source: string, fitting: string, failing: string])[] = [
  // Like those of AWS
  ['[\\w+=,.@-]+', 'role+a@x', '§'],
  ['^[\\p{L}\\p{Z}\\p{N}_.:/=+\\-@]*$', 'Région 1', 'a#b'],
  ['^[\\p{L}\\p{M}\\p{N}\\s+=._:@\\/-]+$', 'a\u0301 ٣', '#'],
  [
    '^arn:aws([a-z-]+)?:outposts:[a-z\\d-]+:\\d{12}:outpost/op-[a-f0-9]{17}$',
    `arn:aws:outposts:eu-1:${'1'.repeat(12)}:outpost/op-${'a'.repeat(17)}`,
    'arn:aws:outposts',
  ],
  [
    '^arn:aws(|-us-gov|-cn|-iso|-iso-b):bedrock:(|[0-9a-z-]{0,20}):(|[0-9]{12}):(inference-profile|foundation-model)/[a-zA-Z0-9-:.]+$',
    'arn:aws-cn:bedrock:::foundation-model/a-1:b.c',
    'arn:aws-x:bedrock:::foundation-model/a',
  ],
  [
    '^arn:aws(?:\\-cn|\\-iso\\-b|\\-iso|\\-us\\-gov)?:[A-Za-z0-9][A-Za-z0-9_/.-]{0,62}:',
    'arn:aws-cn:s3:',
    'arn:aws_cn:s3:',
  ],
  [
    '^[\\u0009\\u000A\\u000D\\u0020-\\u007E\\u0085\\u00A0-\\uD7FF\\uE000-\\uFFFD\\u10000-\\u10FFFF]*$',
    'Zoë',
    '\u0001',
  ],
  // Like those of ISO 20022, the Berlin Group and Open Banking
  ['^[A-Z]{6,6}[A-Z2-9][A-NP-Z0-9]([A-Z0-9]{3,3}){0,1}$', 'DEUTDEFF500', 'DEUTDEF'],
  ['^[A-Z]{2,2}[0-9]{2,2}[a-zA-Z0-9]{1,30}$', 'DE89370400440532013000', 'DE8X'],
  ['^-?[0-9]{1,14}(\\.[0-9]{1,3})?$', '-5877.78', '1,00'],
  ['^\\d{1,13}$|^\\d{1,13}\\.\\d{1,5}$', '12.50', '12.'],
  [
    '^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \\d{2} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \\d{4} \\d{2}:\\d{2}:\\d{2} (GMT|UTC)$',
    'Sun, 10 Sep 2017 19:43:31 UTC',
    'Sun',
  ],
  ['^(?!\\s)(.*)(\\S)$', 'GBR.1', ' x'],
  [
    '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}',
    '01234567-89ab-cdef-0123-456789abcdef',
    '01234567',
  ],
  // Names, passwords, numbers and hosts
  ['^(?!team$|we$|us$|engineering$)', 'teams', 'team'],
  ['^(?!\\s+).+(?<!\\s)$', 'a b', 'a '],
  ['^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$', '-0.5', '-.'],
  ['^(?=.*[1-9])(?:0|[1-9][0-9]{0,11})(?:\\.[0-9]{1,6})?$', '0.01', '0.00'],
  ['^(?=.*[a-z])(?=.*[A-Z])(?=.*\\d)(?=.*[@$!%*?&])[A-Za-z\\d@$!%*?&]{8,}$', 'Passw0rd!', 'Password!'],
  ['^[\\p{L}\\p{N}._%+-]+@[\\p{L}\\p{N}.-]+\\.[\\p{L}]{2,}$', 'josé@exämple.de', 'josé@x'],
  ['^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$', 'YWI=', 'YWI'],
  ['^((25[0-5]|(2[0-4]|1\\d|[1-9]|)\\d)\\.?\\b){4}$', '192.168.0.1', '256.1.1.1'],
  ['^[\\s\\S]{1,5000}$', 'a\n', ''],
  ['^\\+?[1-9]\\d{1,14}$', '+491701234567', '+0'],
  ['^(?!000|666|9\\d{2})\\d{3}-(?!00)\\d{2}-(?!0000)\\d{4}$', '123-45-6789', '000-45-6789'],
]

test('patterns like those of public documents match what they match by ECMA-262', () => {
  for (const [source, fitting, failing] of PUBLIC) {
    const pattern = new LinearPattern(source)
    beginSteps()
    assert.equal(pattern.test(fitting), true, source)
    assert.equal(pattern.test(failing), false, source)
    // Texts that nearly fit: letters left out, doubled and put in.
    const near = fc
      .array(fc.tuple(fc.nat(fitting.length), fc.nat(2), fc.constantFrom(...LETTERS, ...fitting)), {
        maxLength: 3,
      })
      .map((edits) =>
        edits.reduce((text, [at, gone, put]) => text.slice(0, at) + put + text.slice(at + gone), fitting),
      )
    fc.assert(
      fc.property(near, (text) => {
        beginSteps()
        assert.equal(pattern.test(text), fitsByEcma(source, text), JSON.stringify([source, text]))
      }),
      { numRuns: 20 * LONGER },
    )
  }
})
