/** What a pattern cannot be matched with, in words for its author. */
export class Unsupported extends Error {}

/** What ECMA-262 does not have, and what cannot be said exactly in its words. */
export class OtherDialect extends Unsupported {}

/** Marks of other dialects in what ECMA-262 does not take: atomic groups, comments, flags, possessive quantifiers, anchors. */
const DIALECT = /\(\?(?:[>#(|&PR'\d]|[a-z^-]+[:)])|[*+?}]\+|\\[AGKQZz]/
/** Slashes around a pattern with anchors: where they stand for themselves it would match nothing. */
export const IN_SLASHES = /^\/(\^.*\$)\/([giu]*)$/s
/** POSIX classes of letters, as ranges. */
export const POSIX: Readonly<Record<string, string>> = {
  alpha: 'AZaz',
  digit: '09',
  alnum: 'AZaz09',
  upper: 'AZ',
  lower: 'az',
  space: '\t\r  ',
  blank: '\t\t  ',
  punct: '!/:@[`{~',
  xdigit: '09AFaf',
  word: 'AZaz09__',
  cntrl: '\0\x1f\x7f\x7f',
  graph: '!~',
  print: ' ~',
}
/**
 * Patterns of OpenAPI are often written without regard to the rules that `u` brings.
 *
 * @returns whether it is one by them
 * @throws SyntaxError @throws OtherDialect
 */
export function assertPattern(source: string): boolean {
  const withoutFlags = source.replaceAll(/\\.|\(\?i\)/gs, (found) => (found === '(?i)' ? '' : found))
  try {
    new RegExp(withoutFlags, 'u')
    return true
  } catch {
    try {
      new RegExp(withoutFlags)
      return false
    } catch (error) {
      if (DIALECT.test(source)) throw new OtherDialect('is written in another dialect than ECMA-262')
      throw error
    }
  }
}
