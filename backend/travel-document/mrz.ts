/* The machine-readable zone (MRZ): ICAO Doc 9303 part 4 (TD3, passports), 5 (TD1) and 6 (TD2). */

/** `…Valid` means that the check digit of the field agrees with it. */
export interface MachineReadableZone {
  /** Fields have only allowed characters. */
  readonly wellFormed: boolean
  readonly documentNumberValid: boolean
  readonly birthDateValid: boolean
  readonly expiryDateValid: boolean
  /** Always true for TD1 and TD2, whose optional data has no check digit. */
  readonly optionalDataValid: boolean
  readonly compositeValid: boolean
  /** `YYMMDD` as printed. */
  readonly birthDate: string
  readonly expiryDate: string
  /** The names as printed: `ERIKSSON<<ANNA<MARIA<<<<…`. */
  readonly names: string
}

interface Layout {
  readonly lines: number
  readonly characters: number
  readonly documentCode: RegExp
  /** The fields with their lengths, in order over all lines. */
  readonly fields: string
  readonly composite: string
}

interface Fields {
  readonly code: string
  readonly issuer: string
  readonly number: string
  readonly numberDigit: string
  /** Continues a number of more than nine characters; not in TD3. */
  readonly longNumber?: string
  readonly birth: string
  readonly birthDigit: string
  readonly sex: string
  readonly expiry: string
  readonly expiryDigit: string
  readonly nationality: string
  readonly optional?: string
  /** Only in TD3. */
  readonly optionalDigit?: string
  readonly names: string
  readonly composite: string
  readonly compositeDigit: string
}

/** The document code of a card (parts 5 and 6): A, C or I, then anything but V, which means a visa. */
const CARD = /^[ACI][A-UW-Z<]$/

const TD1: Layout = {
  lines: 3,
  characters: 30,
  documentCode: CARD,
  fields:
    'code:2 issuer:3 number:9 numberDigit:1 longNumber:15 ' +
    'birth:6 birthDigit:1 sex:1 expiry:6 expiryDigit:1 nationality:3 optional:11 compositeDigit:1 names:30',
  composite: 'number numberDigit longNumber birth birthDigit expiry expiryDigit optional',
}

const TD2: Layout = {
  lines: 2,
  characters: 36,
  documentCode: CARD,
  fields:
    'code:2 issuer:3 names:31 number:9 numberDigit:1 nationality:3 ' +
    'birth:6 birthDigit:1 sex:1 expiry:6 expiryDigit:1 longNumber:7 compositeDigit:1',
  composite: 'number numberDigit birth birthDigit expiry expiryDigit longNumber',
}

const TD3: Layout = {
  lines: 2,
  characters: 44,
  documentCode: /^P[A-Z<]$/,
  fields:
    'code:2 issuer:3 names:39 number:9 numberDigit:1 nationality:3 ' +
    'birth:6 birthDigit:1 sex:1 expiry:6 expiryDigit:1 optional:14 optionalDigit:1 compositeDigit:1',
  composite: 'number numberDigit birth birthDigit expiry expiryDigit optional optionalDigit',
}

const LAYOUTS = [TD1, TD2, TD3]

export const DOCUMENT_SIZES = LAYOUTS.map(({ lines, characters }) => ({ lines, characters }))

/** Reads lines of `A-Z 0-9 <`. Returns `undefined` when their sizes fit no travel document. */
export function readMrz(lines: readonly string[]): MachineReadableZone | undefined {
  const layout = LAYOUTS.find(
    (candidate) =>
      candidate.lines === lines.length && lines.every((line) => line.length === candidate.characters),
  )
  if (layout === undefined) return undefined
  const f = fieldsOf(layout, lines.join(''))
  return {
    wellFormed: isWellFormed(layout, f),
    documentNumberValid: isDocumentNumberValid(f),
    birthDateValid: agrees(f.birth, f.birthDigit),
    expiryDateValid: agrees(f.expiry, f.expiryDigit),
    optionalDataValid:
      f.optionalDigit === undefined || isOptionalDataValid(f.optional ?? '', f.optionalDigit),
    compositeValid: agrees(f.composite, f.compositeDigit),
    birthDate: f.birth,
    expiryDate: f.expiry,
    names: f.names,
  }
}

function fieldsOf({ fields, composite }: Layout, text: string): Fields {
  const found: Record<string, string> = {}
  let start = 0
  for (const field of fields.split(' ')) {
    const [name = '', length] = field.split(':')
    const end = start + Number(length)
    found[name] = text.slice(start, end)
    start = end
  }
  const covered = composite.split(' ').map((name) => found[name])
  return { ...found, composite: covered.join('') } as unknown as Fields
}

function isWellFormed({ documentCode }: Layout, f: Fields): boolean {
  return (
    documentCode.test(f.code) &&
    /^[A-Z]{1,3}<*$/.test(f.issuer) &&
    /^[A-Z]{1,3}<*$/.test(f.nationality) &&
    /^[A-Z0-9]/.test(f.number) &&
    /^[MF<]$/.test(f.sex) &&
    // Unknown parts of a date of birth are fillers (part 3 section 4.8).
    /^(\d{6}|\d{4}<<|\d{2}<<<<|<<<<<<)$/.test(f.birth) &&
    /^\d{6}$/.test(f.expiry) &&
    // Letters; one filler within a name, two between the identifiers, fillers to the end.
    /^[A-Z]+(<[A-Z]+)*(<<[A-Z]+(<[A-Z]+)*)?<*$/.test(f.names)
  )
}

/** Parts 5 and 6: a long number continues in the optional data, followed by its check digit and a filler. */
function isDocumentNumberValid({ number: field, numberDigit: digit, longNumber }: Fields): boolean {
  if (digit !== '<' || longNumber === undefined) return agrees(field, digit)
  const [rest = ''] = longNumber.split('<')
  const number = rest.slice(0, -1)
  // The standard does not say whether the filler counts, and issuers differ.
  return (
    number !== '' && (agrees(field + number, rest.slice(-1)) || agrees(`${field}<${number}`, rest.slice(-1)))
  )
}

/** Part 4: an empty field may have a zero or a filler as check digit. */
function isOptionalDataValid(field: string, digit: string): boolean {
  return agrees(field, digit) || (digit === '<' && /^<*$/.test(field))
}

const WEIGHTS = [7, 3, 1]

/** Part 3 section 4.9: weights 7, 3, 1 over 0-9, A=10 … Z=35, filler=0, modulo 10. */
function agrees(field: string, digit: string): boolean {
  let sum = 0
  for (const [index, character] of [...field].entries()) {
    const value = character === '<' ? 0 : Number.parseInt(character, 36)
    sum += value * (WEIGHTS[index % WEIGHTS.length] ?? 0)
  }
  return digit === String(sum % 10)
}
