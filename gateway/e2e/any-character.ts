import fc from 'fast-check'

/** Code points of halves of pairs, which are no characters. */
const HALVES = { from: 0xd800, count: 0x800 }

/**
 * Unit of a string of any code points: as `unit: 'binary'` of fast-check, which makes a table of all million of them in each process
 * (1.5 s of CPU).
 */
export const ANY_CHARACTER = fc.nat(0x10ffff - HALVES.count).map(
  (index) => String.fromCodePoint(index < HALVES.from ? index : index + HALVES.count),
  (character) => {
    const code = String(character).codePointAt(0) ?? 0
    return code < HALVES.from ? code : code - HALVES.count
  },
)
