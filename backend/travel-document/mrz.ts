/**
 * The machine-readable zone of a travel document: ICAO Doc 9303 part 4 (TD3, passports), part 5 (TD1) and part 6
 * (TD2), with the check digits of part 3 section 4.9.
 */

/** The content of a machine-readable zone. `…Valid` means that the check digit of the field agrees with it. */
export interface MachineReadableZone {
  /** Every field has only allowed characters. */
  readonly wellFormed: boolean
  readonly documentNumberValid: boolean
  readonly birthDateValid: boolean
  readonly expiryDateValid: boolean
  /** The optional data of TD3 has a check digit of its own; true for TD1 and TD2, where it has none. */
  readonly optionalDataValid: boolean
  readonly compositeValid: boolean
  /** `YYMMDD` as printed. */
  readonly birthDate: string
  readonly expiryDate: string
  /** The names of the holder as printed: `ERIKSSON<<ANNA<MARIA<<<<…`. */
  readonly names: string
}

/** A piece of one line: `end` is exclusive. */
type Range = readonly [line: number, start: number, end: number]

interface Layout {
  readonly lines: number
  readonly characters: number
  readonly documentCode: RegExp
  readonly issuer: Range
  readonly documentNumber: Range
  readonly documentNumberDigit: Range
  /** Where a number of more than nine characters continues; not in TD3. */
  readonly longNumber: Range | undefined
  readonly birthDate: Range
  readonly sex: Range
  readonly expiryDate: Range
  readonly nationality: Range
  readonly names: Range
  readonly optionalData: Range | undefined
  /** What the composite check digit, the last character of its line, is computed over. */
  readonly composite: readonly Range[]
  readonly compositeDigit: Range
}

/** Part 5 and 6: A, C or I, and no V after it (visas). */
const CARD = /^[ACI][A-UW-Z<]$/

const TD1: Layout = {
  lines: 3,
  characters: 30,
  documentCode: CARD,
  issuer: [0, 2, 5],
  documentNumber: [0, 5, 14],
  documentNumberDigit: [0, 14, 15],
  longNumber: [0, 15, 30],
  birthDate: [1, 0, 6],
  sex: [1, 7, 8],
  expiryDate: [1, 8, 14],
  nationality: [1, 15, 18],
  names: [2, 0, 30],
  optionalData: undefined,
  composite: [
    [0, 5, 30],
    [1, 0, 7],
    [1, 8, 15],
    [1, 18, 29],
  ],
  compositeDigit: [1, 29, 30],
}

const TD2: Layout = {
  lines: 2,
  characters: 36,
  documentCode: CARD,
  issuer: [0, 2, 5],
  documentNumber: [1, 0, 9],
  documentNumberDigit: [1, 9, 10],
  longNumber: [1, 28, 35],
  birthDate: [1, 13, 19],
  sex: [1, 20, 21],
  expiryDate: [1, 21, 27],
  nationality: [1, 10, 13],
  names: [0, 5, 36],
  optionalData: undefined,
  composite: [
    [1, 0, 10],
    [1, 13, 20],
    [1, 21, 35],
  ],
  compositeDigit: [1, 35, 36],
}

const TD3: Layout = {
  ...TD2,
  characters: 44,
  documentCode: /^P[A-Z<]$/,
  longNumber: undefined,
  names: [0, 5, 44],
  optionalData: [1, 28, 42],
  composite: [
    [1, 0, 10],
    [1, 13, 20],
    [1, 21, 43],
  ],
  compositeDigit: [1, 43, 44],
}

const LAYOUTS = [TD1, TD2, TD3]

/** The kinds of document by their number of lines and of characters in a line. */
export const DOCUMENT_SIZES = LAYOUTS.map(({ lines, characters }) => ({ lines, characters }))

/**
 * Reads the lines of a machine-readable zone. Returns `undefined` when their number and length fit no travel
 * document. The lines must consist of `A-Z 0-9 <`.
 */
export function readMrz(lines: readonly string[]): MachineReadableZone | undefined {
  const layout = LAYOUTS.find(
    (candidate) =>
      candidate.lines === lines.length && lines.every((line) => line.length === candidate.characters),
  )
  if (layout === undefined) return undefined
  const at = ([line, start, end]: Range) => lines[line]?.slice(start, end) ?? ''
  const digitAfter = ([line, , end]: Range) => at([line, end, end + 1])
  const composite = layout.composite.map(at).join('')
  return {
    wellFormed: isWellFormed(layout, at),
    documentNumberValid: isDocumentNumberValid(layout, at),
    birthDateValid: agrees(at(layout.birthDate), digitAfter(layout.birthDate)),
    expiryDateValid: agrees(at(layout.expiryDate), digitAfter(layout.expiryDate)),
    optionalDataValid:
      layout.optionalData === undefined ||
      isOptionalDataValid(at(layout.optionalData), digitAfter(layout.optionalData)),
    compositeValid: agrees(composite, at(layout.compositeDigit)),
    birthDate: at(layout.birthDate),
    expiryDate: at(layout.expiryDate),
    names: at(layout.names),
  }
}

function isWellFormed(layout: Layout, at: (range: Range) => string): boolean {
  return (
    layout.documentCode.test(at([0, 0, 2])) &&
    /^[A-Z]{1,3}<*$/.test(at(layout.issuer)) &&
    /^[A-Z]{1,3}<*$/.test(at(layout.nationality)) &&
    /^[A-Z0-9]/.test(at(layout.documentNumber)) &&
    /^[MF<]$/.test(at(layout.sex)) &&
    // Unknown parts of a date of birth are fillers (part 3 section 4.8).
    /^(\d{6}|\d{4}<<|\d{2}<<<<|<<<<<<)$/.test(at(layout.birthDate)) &&
    /^\d{6}$/.test(at(layout.expiryDate)) &&
    // Letters, one filler within a name, two between primary and secondary identifier, fillers to the end.
    /^[A-Z]+(<[A-Z]+)*(<<[A-Z]+(<[A-Z]+)*)?<*$/.test(at(layout.names))
  )
}

/**
 * Part 5 and 6, note on long document numbers: the first nine characters stand in the field, a filler in the place of
 * the check digit, the rest with the check digit and a filler at the start of the optional data.
 */
function isDocumentNumberValid(layout: Layout, at: (range: Range) => string): boolean {
  const field = at(layout.documentNumber)
  const digit = at(layout.documentNumberDigit)
  if (digit !== '<' || layout.longNumber === undefined) return agrees(field, digit)
  const rest = at(layout.longNumber).split('<')[0] ?? ''
  const number = rest.slice(0, -1)
  // The text does not say whether the filler is counted, and issuers differ.
  return (
    number !== '' && (agrees(field + number, rest.slice(-1)) || agrees(`${field}<${number}`, rest.slice(-1)))
  )
}

/** Part 4: when the field is empty, its check digit may be a zero or a filler. */
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
