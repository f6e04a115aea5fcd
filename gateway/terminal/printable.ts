/** Control characters, line separators, marks of text direction, invisible characters, and lone surrogates. */
const UNPRINTABLE = /[\p{Cc}\u2028\u2029\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]|\p{Cs}/gu

/** Escapes, as `\u001b`, what could move a terminal's cursor, change its title or hide a part of a line. Tabs stay. */
export function printable(text: string): string {
  return text.replaceAll(UNPRINTABLE, (found) =>
    found === '\t' ? found : `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Quotes a word for a shell, where it needs quotes. */
export function inShell(text: string): string {
  return /^[\w./:@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** A number with its noun, and a verb if need be: `1 line is`, `1,000 lines are`. */
export function plural(count: number, one: string, more = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : more}`
}
