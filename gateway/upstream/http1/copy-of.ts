/** Bytes out of a buffer that will be read into again. Buffer's own `copyBytesFrom` copies a part twice. */
export function copyOf(bytes: Buffer, from: number, to: number): Buffer {
  const copy = Buffer.allocUnsafe(to - from)
  bytes.copy(copy, 0, from, to)
  return copy
}
