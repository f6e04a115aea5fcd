/** Visible ASCII without double quotes, commas and semicolons. */
const BARE = /^[!#-+\--:<-~]+$/
/** A string of structured fields (RFC 9651 section 3.3.3) with the characters of `BARE`, each backslash doubled. */
const QUOTED = /^"((?:[!#-+\--:<-[\]-~]|\\\\)+)"$/

/** Reads an idempotency key, with or without quotes. @returns undefined when the value is no key */
export function readIdempotencyKey(value: string, maxLength: number): string | undefined {
  const quoted = QUOTED.exec(value)?.[1]
  const key = quoted === undefined ? value : quoted.replaceAll('\\\\', '\\')
  return key.length <= maxLength && (quoted !== undefined || BARE.test(key)) ? key : undefined
}
