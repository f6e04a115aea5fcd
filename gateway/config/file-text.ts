import { isUtf8 } from 'node:buffer'

/** More than any file of configuration needs; reading what somebody put in its place must not take all memory. */
const MAX_FILE_BYTES = 32 * 1024 * 1024

/** Throws when a file is larger than any that is read. */
export function checkSize(bytes: number | bigint): void {
  if (bytes > MAX_FILE_BYTES) throw new Error(`it has ${bytes} bytes, more than ${MAX_FILE_BYTES}`)
}

/** Text as it is written in a file of ours. Throws when it is no UTF-8: what stands there instead nobody has written. */
export function utf8Text(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString('utf8')
  const offset = firstInvalid(bytes)
  const line = bytes.subarray(0, offset).toString('latin1').split('\n').length
  const octet = bytes[offset]?.toString(16).toUpperCase().padStart(2, '0')
  throw new Error(`byte ${offset} (0x${octet}, in line ${line}) is not UTF-8`)
}

/** Offset of the first byte that no character begins with, or that begins one which does not go on as it must. */
function firstInvalid(bytes: Buffer): number {
  let good = 0
  let bad = bytes.length + 1
  // The length of the longest beginning that more bytes could still make valid.
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2)
    if (middle <= bytes.length && canBegin(bytes.subarray(0, middle))) good = middle
    else bad = middle
  }
  // It may end in the middle of a character.
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
