/** Visible ASCII without quotes, commas and semicolons. */
const BARE = /^[!#-+\--:<-~]+$/
/** A string of structured fields (RFC 9651 section 3.3.3), in which a backslash stands before another. */
const QUOTED = /^"((?:[!#-+\--:<-[\]-~]|\\\\)+)"$/

/** Reads an idempotency key: both forms of one value give the same. @returns undefined when it is none */
export function readIdempotencyKey(value: string, maxLength: number): string | undefined {
  const quoted = QUOTED.exec(value)?.[1]
  const key = quoted === undefined ? value : quoted.replaceAll('\\\\', '\\')
  return key.length <= maxLength && (quoted !== undefined || BARE.test(key)) ? key : undefined
}
