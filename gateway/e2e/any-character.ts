import fc from 'fast-check'

/** Halves of surrogate pairs, which are no characters. */
const HALVES = { from: 0xd800, count: 0x800 }

/** Any character, for texts. Fast-check's `unit: 'binary'` has a table of a million, for 1.5 s of CPU a process. */
export const ANY_CHARACTER = fc.nat(0x10ffff - HALVES.count).map(
  (index) => String.fromCodePoint(index < HALVES.from ? index : index + HALVES.count),
  (character) => {
    const code = String(character).codePointAt(0) ?? 0
    return code < HALVES.from ? code : code - HALVES.count
  },
)
