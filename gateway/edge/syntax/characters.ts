/** Bits of `CHARACTERS`. */
export const TOKEN = 1
export const TEXT = 2

const NOT_TOKEN = /[^!#$%&'*+\-.^_`|~0-9A-Za-z]/
const NOT_TEXT = /[^\t\x20-\x7e\x80-\xff]/

/** For each byte: `TOKEN` (RFC 9110 section 5.6.2), or `TEXT` of a field value (RFC 9110 section 5.5), or both. */
export const CHARACTERS = Uint8Array.from({ length: 256 }, (_, code) => {
  const character = String.fromCharCode(code)
  return (NOT_TOKEN.test(character) ? 0 : TOKEN) | (NOT_TEXT.test(character) ? 0 : TEXT)
})

export function isToken(text: string): boolean {
  return text !== '' && !NOT_TOKEN.test(text)
}

/** False also for characters beyond a byte, which would become other characters on the wire. */
export function isText(text: string): boolean {
  return !NOT_TEXT.test(text)
}

/** Removes spaces and tabs. `trim` would also remove 0xA0, which may be one byte of a letter in UTF-8. */
export function withoutSpaceAround(text: string): string {
  let from = 0
  let to = text.length
  while (from < to && isSpace(text.charCodeAt(from))) from++
  while (to > from && isSpace(text.charCodeAt(to - 1))) to--
  return to - from === text.length ? text : text.slice(from, to)
}

/** Optional white space (RFC 9110 section 5.6.3). */
export function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x09
}

/** Copies a text of Latin-1. A slice in V8 keeps the whole text in memory, and a concatenation its parts. */
export function ownText(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}

/** `%2F` for 0x2F. */
export function percentOctet(byte: number): string {
  return `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
}

/** Undefined for text that is not UTF-8, such as a part that ends within a percent-encoded octet. */
export function percentDecoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Escapes text for HTML and SVG, in elements and in quoted attributes. */
export function inHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '')
}
