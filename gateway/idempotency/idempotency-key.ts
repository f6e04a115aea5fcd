/** Visible ASCII without quotes, commas and semicolons. */
const BARE = /^[!#-+\--:<-~]+$/
/** A string of structured fields (RFC 9651 section 3.3.3), in which each backslash is doubled. */
const QUOTED = /^"((?:[!#-+\--:<-[\]-~]|\\\\)+)"$/

/** Reads an idempotency key; both forms of a value give one key. @returns undefined when it is none */
export function readIdempotencyKey(value: string, maxLength: number): string | undefined {
  const quoted = QUOTED.exec(value)?.[1]
  const key = quoted === undefined ? value : quoted.replaceAll('\\\\', '\\')
  return key.length <= maxLength && (quoted !== undefined || BARE.test(key)) ? key : undefined
}
