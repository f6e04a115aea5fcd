/**
 * The same ASCII text in memory of its own. V8 keeps a part of a text as a reference to the whole: a token that is remembered
 * would keep all of the request's head that it came with.
 */
export function ownText(ascii: string): string {
  return Buffer.from(ascii, 'latin1').toString('latin1')
}
