/* ICAO Doc 9303 part 3 section 6 (transliteration), part 4 section 4.2.3 (truncation). */

/** Spellings (section 6, table A) of letters that have no base letter, or more spellings than the base letter alone. */
const SPELLINGS: Readonly<Record<string, readonly string[]>> = {
  Ä: ['AE', 'A'],
  Å: ['AA', 'A'],
  Æ: ['AE'],
  Ð: ['D'],
  Đ: ['D'],
  Ħ: ['H'],
  ı: ['I'],
  Ĳ: ['IJ'],
  ĸ: ['Q'],
  Ł: ['L'],
  Ñ: ['N', 'NXX'],
  Ŋ: ['N'],
  Ö: ['OE', 'O'],
  Ø: ['OE', 'O'],
  Œ: ['OE'],
  ẞ: ['SS'],
  Þ: ['TH'],
  Ŧ: ['T'],
  Ü: ['UE', 'UXX', 'U'],
}

type Word = readonly (readonly string[])[]

/**
 * True when the holder named in the zone (`ERIKSSON<<ANNA<MARIA<<<<`) is called `name` (`Anna María Eriksson`). The
 * family name must be complete and stand first or last. The first given name is required. Cut names match by first letters.
 */
export function nameMatches(name: string, names: string): boolean {
  const words = wordsOf(name)
  if (words === undefined) return false
  const [primary = '', secondary = ''] = names.split('<<')
  const holder = {
    family: primary.split('<').filter(Boolean),
    given: secondary.split('<').filter(Boolean),
    // Part 4: a letter in the last position means that names may have been cut.
    isCut: !names.endsWith('<'),
  }
  return [true, false].some((isFamilyFirst) => matchesInOrder(words, holder, isFamilyFirst))
}

interface Holder {
  readonly family: readonly string[]
  readonly given: readonly string[]
  readonly isCut: boolean
}

function matchesInOrder(words: readonly Word[], holder: Holder, isFamilyFirst: boolean): boolean {
  const split = isFamilyFirst ? holder.family.length : words.length - holder.family.length
  if (split < 0) return false
  const front = words.slice(0, split)
  const back = words.slice(split)
  const [family, given] = isFamilyFirst ? [front, back] : [back, front]
  const fits = (word: Word | undefined, printed: string) =>
    word !== undefined && spells(word, printed, holder.isCut)
  if (!holder.family.every((printed, index) => fits(family[index], printed))) return false
  if (holder.given.length === 0) return given.length === 0
  // The given names must be among the printed ones in order, from the first on.
  const [first = '', ...further] = holder.given
  if (!fits(given[0], first)) return false
  let next = 1
  for (const printed of further) if (fits(given[next], printed)) next++
  return next >= given.length || (holder.isCut && next === holder.given.length)
}

/** The words of a name, as spellings of each letter; `undefined` when a letter is not Latin. */
function wordsOf(name: string): Word[] | undefined {
  const words: Word[] = []
  // Section 4.6: apostrophes are left out, hyphens become a filler.
  for (const text of name
    .normalize('NFC')
    .replace(/['’ʼ`´.]/g, '')
    .split(/[\s,\-‐‑–]+/)) {
    if (text === '') continue
    const word = [...text].map(spellings)
    if (word.some((letters) => letters.length === 0)) return undefined
    words.push(word)
  }
  return words
}

function spellings(letter: string): readonly string[] {
  // toUpperCase makes SS of ß, and I of ı.
  const capital = letter === 'ß' ? 'ẞ' : letter === 'ı' ? letter : letter.toUpperCase()
  const listed = SPELLINGS[capital.normalize('NFC')]
  if (listed !== undefined) return listed
  const base = capital.normalize('NFD').replace(/\p{Mark}/gu, '')
  return /^[A-Z]+$/.test(base) ? [base] : []
}

/** True when a spelling equals the printed name, or begins with it when the name may be cut. */
function spells(word: Word, printed: string, isCut: boolean): boolean {
  // Positions in the printed name that the letters so far can reach.
  let reached = new Set([0])
  for (const letters of word) {
    const next = new Set<number>()
    for (const place of reached) {
      for (const spelling of letters) {
        if (printed.startsWith(spelling, place)) next.add(place + spelling.length)
        // At the end of the printed name the rest is empty, and each spelling begins with the empty text.
        else if (isCut && spelling.startsWith(printed.slice(place))) return true
      }
    }
    reached = next
  }
  return reached.has(printed.length)
}
