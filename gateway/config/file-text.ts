import { isUtf8 } from 'node:buffer'

/** More than any configuration file needs; protects the memory from a wrong file. */
const MAX_FILE_BYTES = 32 * 1024 * 1024

/** @throws Error for a file that is too large to be configuration */
export function checkSize(bytes: number | bigint): void {
  if (bytes > MAX_FILE_BYTES) throw new Error(`it has ${bytes} bytes, more than ${MAX_FILE_BYTES}`)
}

/** Decodes UTF-8. @throws Error that names the first invalid byte */
export function utf8Text(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString('utf8')
  const offset = firstInvalid(bytes)
  const line = bytes.subarray(0, offset).toString('latin1').split('\n').length
  const octet = bytes[offset]?.toString(16).toUpperCase().padStart(2, '0')
  throw new Error(`byte ${offset} (0x${octet}, in line ${line}) is not UTF-8`)
}

/** The offset of the first byte that is not part of a valid character. */
function firstInvalid(bytes: Buffer): number {
  let good = 0
  let bad = bytes.length + 1
  // Binary search for the longest prefix that more bytes could still make valid.
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2)
    if (middle <= bytes.length && canBegin(bytes.subarray(0, middle))) good = middle
    else bad = middle
  }
  // The prefix may end in the middle of a character.
  while (!isUtf8(bytes.subarray(0, good))) good -= 1
  return good
}

function canBegin(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true })
    return true
  } catch {
    return false
  }
}
