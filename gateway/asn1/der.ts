/** Where one value of DER stands in its bytes (X.690 section 8.1). Makes no copy: a list may have 100,000 entries. */
export interface DerSpan {
  /** The identifier byte, such as 0x30 for a SEQUENCE. */
  readonly tag: number
  readonly at: number
  readonly contentAt: number
  /** Exclusive. */
  readonly end: number
}

export const SEQUENCE = 0x30
export const BOOLEAN = 0x01
export const INTEGER = 0x02
export const BIT_STRING = 0x03
export const OBJECT_IDENTIFIER = 0x06
export const UTC_TIME = 0x17
export const GENERALIZED_TIME = 0x18
export const EXPLICIT_0 = 0xa0

/** The value at `at`, within what ends at `limit`. @throws Error when it is not DER, or cut off */
export function derAt(bytes: Buffer, at: number, limit: number): DerSpan {
  if (at + 2 > limit) throw new Error('not DER: cut off')
  const tag = bytes.readUInt8(at)
  const first = bytes.readUInt8(at + 1)
  const lengthBytes = first < 0x80 ? 0 : first - 0x80
  const contentAt = at + 2 + lengthBytes
  // Tags of more than one byte and lengths beyond 4 GiB do not occur in what is read here.
  if ((tag & 0x1f) === 0x1f || first === 0x80 || lengthBytes > 4 || contentAt > limit)
    throw new Error('not DER')
  const end = contentAt + (lengthBytes === 0 ? first : bytes.readUIntBE(at + 2, lengthBytes))
  if (end > limit) throw new Error('not DER: cut off')
  return { tag, at, contentAt, end }
}

/** The values in a SEQUENCE. @throws Error when it is none, or holds what is not DER */
export function* derIn(bytes: Buffer, { tag, contentAt, end }: DerSpan): Iterable<DerSpan> {
  if (tag !== SEQUENCE) throw new Error('not a SEQUENCE')
  for (let at = contentAt; at < end; ) {
    const value = derAt(bytes, at, end)
    yield value
    at = value.end
  }
}

/** An OID as people write it (X.690 section 8.19). */
export function dotted(oid: Buffer): string {
  const arcs: number[] = []
  let arc = 0
  for (const byte of oid) {
    arc = arc * 128 + (byte & 0x7f)
    if (byte < 0x80) {
      // The first two share a number.
      if (arcs.length === 0)
        arcs.push(Math.min(Math.floor(arc / 40), 2), arc - 40 * Math.min(Math.floor(arc / 40), 2))
      else arcs.push(arc)
      arc = 0
    }
  }
  return arcs.join('.')
}

/** Milliseconds since the epoch (RFC 5280 section 4.1.2.5). @throws Error when it is no time, or there is no such day */
export function timeOf(bytes: Buffer, { tag, contentAt, end }: DerSpan): number {
  const yearDigits = tag === UTC_TIME ? 2 : 4
  if (tag !== UTC_TIME && tag !== GENERALIZED_TIME) throw new Error('not a time')
  if (end - contentAt !== yearDigits + 11 || bytes[end - 1] !== 0x5a) throw new Error('not a time')
  const at = contentAt + yearDigits
  const inCentury = pairAt(bytes, at - 2)
  const century = tag === GENERALIZED_TIME ? pairAt(bytes, contentAt) : inCentury < 50 ? 20 : 19
  const month = pairAt(bytes, at)
  const day = pairAt(bytes, at + 2)
  const hour = pairAt(bytes, at + 4)
  const minute = pairAt(bytes, at + 6)
  const second = pairAt(bytes, at + 8)
  // `Date` carries what is too much over to the next month, day or minute, and takes the years 0 to 99 for others.
  if (hour > 23 || minute > 59 || second > 59 || century < 1) throw new Error('no such time')
  const date = new Date(Date.UTC(century * 100 + inCentury, month - 1, day, hour, minute, second))
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) throw new Error('no such day')
  return date.getTime()
}

function pairAt(bytes: Buffer, at: number): number {
  const tens = bytes.readUInt8(at) - 0x30
  const ones = bytes.readUInt8(at + 1) - 0x30
  if (tens < 0 || tens > 9 || ones < 0 || ones > 9) throw new Error('not a time')
  return tens * 10 + ones
}

/** One element of DER (X.690): its tag byte, its content, and all its bytes. */
export interface Der {
  readonly tag: number
  readonly content: Buffer
  readonly bytes: Buffer
}

export const TAG = {
  boolean: BOOLEAN,
  integer: INTEGER,
  octets: 0x04,
  null: 0x05,
  oid: OBJECT_IDENTIFIER,
  time: GENERALIZED_TIME,
  sequence: SEQUENCE,
  set: 0x31,
  explicit0: EXPLICIT_0,
} as const

/** More elements than a response of a time-stamping authority ever has in one. */
const MAX_MEMBERS = 1000

/** Reads bytes that are exactly one element. @throws Error when they are not */
export function readDer(bytes: Buffer): Der {
  const one = readElement(bytes, 0)
  if (one.bytes.length !== bytes.length) throw new Error('not DER: it goes on after its end')
  return one
}

export function membersOf({ content }: Der): readonly Der[] {
  const members: Der[] = []
  for (let at = 0; at < content.length; ) {
    const member = readElement(content, at)
    members.push(member)
    at += member.bytes.length
    if (members.length > MAX_MEMBERS) throw new Error('not DER: too many members')
  }
  return members
}

export function membersIn(der: Der | undefined, tag: number): readonly Der[] {
  return membersOf(expectTag(der, tag))
}

export function expectTag(der: Der | undefined, tag: number): Der {
  if (der?.tag === tag) return der
  throw new Error(`not the DER that was expected: ${der?.tag ?? 'nothing'} where ${tag} belongs`)
}

/** An object identifier in dotted decimals. */
export function oidOf(element: Der | undefined): string {
  return dotted(expectTag(element, TAG.oid).content)
}

export function der(tag: number, ...content: readonly Uint8Array[]): Buffer {
  const length = content.reduce((sum, { byteLength }) => sum + byteLength, 0)
  const digits: number[] = []
  for (let rest = length; rest > 0; rest >>>= 8) digits.unshift(rest & 0xff)
  const head = length < 0x80 ? [tag, length] : [tag, 0x80 | digits.length, ...digits]
  return Buffer.concat([Buffer.from(head), ...content])
}

export function derOid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number)
  const bytes = [first * 40 + second, ...rest].flatMap((arc) => {
    const septets = [arc % 128]
    for (let left = Math.floor(arc / 128); left > 0; left = Math.floor(left / 128)) {
      septets.unshift(0x80 | (left % 128))
    }
    return septets
  })
  return der(TAG.oid, Buffer.from(bytes))
}

/** A whole number of these bytes, most significant first, not negative. */
export function derInteger(bytes: Uint8Array): Buffer {
  const from = bytes.findIndex((byte) => byte !== 0)
  const digits = from < 0 ? Buffer.from([0]) : bytes.subarray(from)
  return der(TAG.integer, (digits[0] as number) >= 0x80 ? Buffer.concat([Buffer.from([0]), digits]) : digits)
}

function readElement(bytes: Buffer, at: number): Der {
  const { tag, contentAt, end } = derAt(bytes, at, bytes.length)
  return { tag, content: bytes.subarray(contentAt, end), bytes: bytes.subarray(at, end) }
}
