/** One attribute, `type=value`, with the `,` or `+` after it. */
const ATTRIBUTE =
  / *([A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)+) *= *(?! )((?:\\[0-9A-Fa-f]{2}|\\[ "#+,;<=>\\]|[^\\,+;"<>\0])*)([,+]?)/uy
const ESCAPE = /(?:\\[0-9A-Fa-f]{2})+|\\./gu

/**
 * Spells a distinguished name (RFC 4514) in one way, for comparison. Case of types, spaces around separators, escaping
 * and the order within a multi-valued part do not count. Each character of a value counts (RFC 4518 is less strict).
 * @returns undefined when it is no distinguished name
 */
export function canonicalName(text: string): string | undefined {
  const parts: string[][] = [[]]
  let separator = ','
  for (let at = 0; separator !== ''; ) {
    ATTRIBUTE.lastIndex = at
    const match = ATTRIBUTE.exec(text)
    if (match === null) return undefined
    const [whole, type = '', value = '', next = ''] = match
    if (separator === ',') parts.push([])
    parts.at(-1)?.push(`${type.toUpperCase()}=${JSON.stringify(unescaped(withoutClosingSpaces(value)))}`)
    separator = next
    at += whole.length
    if (separator === '' && at !== text.length) return undefined
  }
  return parts
    .slice(1)
    .map((attributes) => attributes.sort().join('+'))
    .join(',')
}

/** Removes spaces at the end of a value, except an escaped one. */
function withoutClosingSpaces(value: string): string {
  let end = value.length
  while (value[end - 1] === ' ') end -= 1
  let escapes = 0
  while (value[end - 1 - escapes] === '\\') escapes += 1
  return value.slice(0, escapes % 2 === 1 ? end + 1 : end)
}

/** Pairs of hexadecimal digits are bytes of UTF-8. */
function unescaped(value: string): string {
  return value.replace(ESCAPE, (escaped) =>
    escaped.length === 2 ? escaped.slice(1) : Buffer.from(escaped.replaceAll('\\', ''), 'hex').toString(),
  )
}
