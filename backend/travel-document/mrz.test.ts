import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { parse } from 'mrz'
import { checkDigit, type DocumentData, printMrz, SPECIMENS } from '../testing/specimens.ts'
import { type MachineReadableZone, readMrz } from './mrz.ts'

const KINDS = ['TD1', 'TD2', 'TD3'] as const
type Kind = (typeof KINDS)[number]

const FLAGS = [
  'wellFormed',
  'documentNumberValid',
  'birthDateValid',
  'expiryDateValid',
  'optionalDataValid',
  'compositeValid',
] as const

function failing(lines: readonly string[]): string[] {
  const zone = readMrz(lines)
  assert.ok(zone)
  return FLAGS.filter((flag) => !zone[flag])
}

/** Replaces the character at one place of the lines. */
function altered(
  lines: readonly string[],
  [line, column]: readonly [number, number],
  character: string,
): string[] {
  return lines.map((text, index) =>
    index === line ? text.slice(0, column) + character + text.slice(column + 1) : text,
  )
}

const arbitraryData: fc.Arbitrary<DocumentData> = fc.record({
  number: fc.stringMatching(/^[A-Z0-9]{1,9}$/),
  birthDate: fc.constantFrom('740812', '000229', '991231'),
  expiryDate: fc.constantFrom('301231', '280229', '991130'),
  sex: fc.constantFrom('M', 'F', '<'),
  names: fc.constantFrom(
    'ERIKSSON<<ANNA<MARIA',
    'LI<<WU',
    'ARKFREITH',
    'VAN<DER<MUELLEN<<MARIANNE<LOUISE<ANTOINETTE',
  ),
  optional: fc.stringMatching(/^[A-Z0-9]{0,7}$/),
})

describe('readMrz', () => {
  for (const kind of KINDS) {
    it(`accepts the ${kind} specimen of ICAO Doc 9303`, () => {
      assert.deepEqual(failing(SPECIMENS[kind]), [])
      const zone = readMrz(SPECIMENS[kind]) as MachineReadableZone
      assert.equal(zone.birthDate, '740812')
      assert.equal(zone.expiryDate, '120415')
      assert.match(zone.names, /^ERIKSSON<<ANNA<MARIA<+$/)
    })
  }

  it('finds a changed character by the check digit of its field, if it has one, and by the composite', () => {
    const changes: [Kind, [number, number], string[]][] = [
      ['TD1', [0, 5], ['documentNumberValid', 'compositeValid']],
      ['TD1', [0, 14], ['documentNumberValid', 'compositeValid']],
      ['TD1', [1, 0], ['birthDateValid', 'compositeValid']],
      ['TD1', [1, 6], ['birthDateValid', 'compositeValid']],
      ['TD1', [1, 8], ['expiryDateValid', 'compositeValid']],
      ['TD1', [1, 14], ['expiryDateValid', 'compositeValid']],
      ['TD1', [0, 29], ['compositeValid']],
      ['TD1', [1, 28], ['compositeValid']],
      ['TD1', [1, 29], ['compositeValid']],
      ['TD2', [1, 0], ['documentNumberValid', 'compositeValid']],
      ['TD2', [1, 9], ['documentNumberValid', 'compositeValid']],
      ['TD2', [1, 13], ['birthDateValid', 'compositeValid']],
      ['TD2', [1, 21], ['expiryDateValid', 'compositeValid']],
      ['TD2', [1, 34], ['compositeValid']],
      ['TD2', [1, 35], ['compositeValid']],
      ['TD3', [1, 0], ['documentNumberValid', 'compositeValid']],
      ['TD3', [1, 13], ['birthDateValid', 'compositeValid']],
      ['TD3', [1, 21], ['expiryDateValid', 'compositeValid']],
      ['TD3', [1, 28], ['optionalDataValid', 'compositeValid']],
      ['TD3', [1, 42], ['optionalDataValid', 'compositeValid']],
      ['TD3', [1, 43], ['compositeValid']],
    ]
    for (const [kind, place, expected] of changes) {
      const [line, column] = place
      // The new character never has the same value modulo 10, because a check digit would not notice that.
      const printed = SPECIMENS[kind][line]?.[column] ?? ''
      const character = printed === '<' ? '1' : String((Number.parseInt(printed, 36) + 1) % 10)
      assert.deepEqual(failing(altered(SPECIMENS[kind], place, character)), expected, `${kind} ${place}`)
    }
  })

  it('refuses characters that a field cannot have', () => {
    const changes: [Kind, [number, number], string][] = [
      ['TD1', [0, 0], 'P'],
      ['TD1', [0, 1], 'V'],
      ['TD1', [0, 2], '1'],
      ['TD1', [1, 7], 'X'],
      ['TD1', [1, 15], '1'],
      ['TD1', [2, 0], '<'],
      ['TD1', [2, 3], '0'],
      ['TD2', [0, 0], 'V'],
      ['TD3', [0, 0], 'V'],
      ['TD3', [0, 43], '9'],
      ['TD3', [1, 0], '<'],
      ['TD3', [1, 13], 'A'],
      ['TD3', [1, 21], '<'],
    ]
    for (const [kind, place, character] of changes) {
      const zone = readMrz(altered(SPECIMENS[kind], place, character))
      assert.equal(zone?.wellFormed, false, `${kind} ${place} ${character}`)
    }
  })

  it('knows no other number or length of lines', () => {
    const [first, second] = SPECIMENS.TD3
    assert.equal(readMrz([first]), undefined)
    assert.equal(readMrz([first, second, second]), undefined)
    assert.equal(readMrz([first, second.slice(1)]), undefined)
    assert.equal(readMrz([...SPECIMENS.TD1].slice(1)), undefined)
  })

  it('takes fillers for unknown parts of a date of birth', () => {
    const birthDate = '74<<<<'
    const lines = printMrz('TD3', { ...sample, birthDate })
    assert.deepEqual(failing(lines), [])
  })

  it('takes a filler as the check digit of empty optional data', () => {
    const [first, second = ''] = printMrz('TD3', { ...sample, optional: '' })
    const filler = `${second.slice(0, 42)}<`
    const composite = filler.slice(0, 10) + filler.slice(13, 20) + filler.slice(21, 43)
    assert.deepEqual(failing([first ?? '', filler + checkDigit(composite)]), [])
    const notEmpty = `${second.slice(0, 28)}${'A'.padEnd(14, '<')}<0`
    assert.ok(failing([first ?? '', notEmpty]).includes('optionalDataValid'))
  })

  it('reads a document number of more than nine characters, which goes on in the optional data', () => {
    // Part 5, the note with the number D23145890734; its check digit is 9.
    const lines = (check: string) => [
      `I<UTOD23145890<734${check}<<<<<<<<<<<`.slice(0, 30),
      SPECIMENS.TD1[1],
      SPECIMENS.TD1[2],
    ]
    assert.equal(checkDigit('D23145890734'), '9')
    assert.equal(readMrz(lines('9'))?.documentNumberValid, true)
    assert.equal(readMrz(lines('8'))?.documentNumberValid, false)
    const empty = altered(SPECIMENS.TD1, [0, 14], '<')
    assert.equal(readMrz(empty)?.documentNumberValid, false)
  })

  it('accepts whatever is printed with right check digits', () => {
    fc.assert(
      fc.property(fc.constantFrom(...KINDS), arbitraryData, (kind, data) => {
        assert.deepEqual(failing(printMrz(kind, data)), [])
      }),
    )
  })

  it('agrees with the mrz package on documents in which any character was changed', () => {
    const flags = {
      documentNumberValid: 'documentNumberCheckDigit',
      birthDateValid: 'birthDateCheckDigit',
      expiryDateValid: 'expirationDateCheckDigit',
      compositeValid: 'compositeCheckDigit',
    } as const
    const change = fc.tuple(fc.nat({ max: 43 }), fc.constantFrom(...'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ'))
    fc.assert(
      fc.property(fc.constantFrom(...KINDS), arbitraryData, change, (kind, data, [column, character]) => {
        const printed = printMrz(kind, data)
        const line = kind === 'TD1' ? column % 2 : 1
        const lines = altered(printed, [line, column % (printed[0]?.length ?? 1)], character)
        const theirs = new Map(parse(lines).details.map((detail) => [detail.field, detail.valid]))
        const zone = readMrz(lines)
        for (const [ours, field] of Object.entries(flags)) {
          assert.equal(zone?.[ours as keyof typeof flags], theirs.get(field), `${ours} of ${lines.join(' ')}`)
        }
      }),
      { numRuns: 500 },
    )
  })
})

const sample: DocumentData = {
  number: 'L898902C3',
  birthDate: '740812',
  expiryDate: '301231',
  sex: 'F',
  names: 'ERIKSSON<<ANNA<MARIA',
  optional: 'ZE184226B',
}
