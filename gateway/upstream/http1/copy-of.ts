/** Copies part of a buffer that will be overwritten. (`Buffer.copyBytesFrom` would copy it twice.) */
export function copyOf(bytes: Buffer, from: number, to: number): Buffer {
  const copy = Buffer.allocUnsafe(to - from)
  bytes.copy(copy, 0, from, to)
  return copy
}
