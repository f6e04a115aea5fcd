import {
  BOOLEAN,
  derAt,
  dotted,
  EXPLICIT_0,
  GENERALIZED_TIME,
  INTEGER,
  OBJECT_IDENTIFIER,
  SEQUENCE,
} from './der.ts'

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
