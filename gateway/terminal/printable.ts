/** Control characters, line separators, invisible characters and marks of text direction, and lone surrogates. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu

/** Escapes, as `\u001b`, what could move a terminal's cursor, change its title or hide a part of a line. Tabs stay. */
export function printable(text: string): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  return text.replaceAll(UNPRINTABLE, (found) =>
    found === '\t' ? found : found.split('').map(escaped).join(''),
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

/** The message of an Error, or the text of anything else that was thrown. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}
