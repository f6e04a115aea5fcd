import fc from 'fast-check'

/** Halves of surrogate pairs, which are no characters. */
const HALVES = { from: 0xd800, count: 0x800 }

/** A string's unit of any code point, as fast-check's `unit: 'binary'`, whose table of a million costs 1.5 s of CPU a process. */
export const ANY_CHARACTER = fc.nat(0x10ffff - HALVES.count).map(
  (index) => String.fromCodePoint(index < HALVES.from ? index : index + HALVES.count),
  (character) => {
    const code = String(character).codePointAt(0) ?? 0
    return code < HALVES.from ? code : code - HALVES.count
  },
)
