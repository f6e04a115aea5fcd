/** One value of DER: tag, length, content (X.690 section 8.1). */
export interface DerValue {
  /** The identifier byte, such as 0x30 for a SEQUENCE. */
  readonly tag: number
  readonly content: Buffer
  /** The content with its tag and length. */
  readonly whole: Buffer
}

export const SEQUENCE = 0x30
export const INTEGER = 0x02
export const BIT_STRING = 0x03
export const OBJECT_IDENTIFIER = 0x06
export const UTC_TIME = 0x17
export const GENERALIZED_TIME = 0x18

/**
 * Splits `bytes` into its consecutive values.
 *
 * @throws when they are not DER
 */
export function readDer(bytes: Buffer): DerValue[] {
  const values: DerValue[] = []
  for (let at = 0; at < bytes.length; ) {
    const { contentAt, end } = extentOf(bytes, at)
    values.push({
      tag: bytes.readUInt8(at),
      content: bytes.subarray(contentAt, end),
      whole: bytes.subarray(at, end),
    })
    at = end
  }
  return values
}

function extentOf(bytes: Buffer, at: number): { readonly contentAt: number; readonly end: number } {
  const first = at + 1 < bytes.length ? bytes.readUInt8(at + 1) : Number.NaN
  // Tags of more than one byte and lengths beyond 4 GiB do not occur in what is read here.
  const lengthBytes = first < 0x80 ? 0 : first - 0x80
  const contentAt = at + 2 + lengthBytes
  const readable = (bytes.readUInt8(at) & 0x1f) !== 0x1f && first !== 0x80 && lengthBytes <= 4
  if (!readable || contentAt > bytes.length) throw new Error('not DER')
  const length = lengthBytes === 0 ? first : bytes.readUIntBE(at + 2, lengthBytes)
  const end = contentAt + length
  if (end > bytes.length) throw new Error('not DER: cut off')
  return { contentAt, end }
}

/**
 * The single value in `bytes`.
 *
 * @throws when it has another tag, or more follows
 */
export function readDerOf(tag: number, bytes: Buffer): DerValue {
  const [value, ...rest] = readDer(bytes)
  if (value === undefined || value.tag !== tag || rest.length > 0)
    throw new Error('not the DER that was expected')
  return value
}

/** Milliseconds since the epoch of a UTCTime or GeneralizedTime as certificates write them (RFC 5280 section 4.1.2.5). */
export function readTime({ tag, content }: DerValue): number {
  const text = content.toString('latin1')
  const [, year = '', ...parts] =
    (tag === UTC_TIME
      ? /^(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/
      : /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/
    ).exec(text) ?? []
  const [month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.map(Number)
  const century = tag === UTC_TIME ? (Number(year) < 50 ? 2000 : 1900) : 0
  const timeMs = Date.UTC(century + Number(year), month - 1, day, hour, minute, second)
  if (year === '' || Number.isNaN(timeMs)) throw new Error('not a time')
  return timeMs
}
