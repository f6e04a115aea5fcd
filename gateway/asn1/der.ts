export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bits: 0x03,
  octets: 0x04,
  null: 0x05,
  oid: 0x06,
  utf8: 0x0c,
  printable: 0x13,
  utcTime: 0x17,
  time: 0x18,
  sequence: 0x30,
  set: 0x31,
  explicit0: 0xa0,
  explicit3: 0xa3,
} as const

/** One element of DER (X.690 section 8.1). It copies no bytes, because a list may have 100,000 elements. */
export class Der {
  readonly tag: number
  readonly #source: Buffer
  readonly #at: number
  readonly #contentAt: number
  readonly #end: number

  /** Reads the element at `at`, which must end by `limit`. @throws Error when it is not DER */
  constructor(source: Buffer, at: number, limit: number) {
    if (at + 2 > limit) throw new Error('not DER: cut off')
    this.tag = source.readUInt8(at)
    const first = source.readUInt8(at + 1)
    const lengthBytes = first < 0x80 ? 0 : first - 0x80
    this.#source = source
    this.#at = at
    this.#contentAt = at + 2 + lengthBytes
    // Tags of more than one byte and lengths beyond 4 GiB do not occur here.
    if ((this.tag & 0x1f) === 0x1f || first === 0x80 || lengthBytes > 4 || this.#contentAt > limit)
      throw new Error('not DER')
    this.#end = this.#contentAt + (lengthBytes === 0 ? first : source.readUIntBE(at + 2, lengthBytes))
    if (this.#end > limit) throw new Error('not DER: cut off')
  }

  get bytes(): Buffer {
    return this.#source.subarray(this.#at, this.#end)
  }

  get content(): Buffer {
    return this.#source.subarray(this.#contentAt, this.#end)
  }

  get hex(): string {
    return this.#source.toString('hex', this.#contentAt, this.#end)
  }

  get length(): number {
    return this.#end - this.#contentAt
  }

  get isZulu(): boolean {
    return this.#source[this.#end - 1] === 0x5a
  }

  /** The number of two digits that begin `fromEnd` bytes before the end. */
  pairAt(fromEnd: number): number {
    const tens = this.#source.readUInt8(this.#end - fromEnd) - 0x30
    const ones = this.#source.readUInt8(this.#end - fromEnd + 1) - 0x30
    if (tens < 0 || tens > 9 || ones < 0 || ones > 9) throw new Error('not a time')
    return tens * 10 + ones
  }

  /** @throws Error when the content is not DER */
  members(): readonly Der[] {
    const members: Der[] = []
    this.each((member) => members.push(member))
    return members
  }

  /** Calls `use` with each element, and keeps none. */
  each(use: (member: Der) => void): void {
    for (let at = this.#contentAt; at < this.#end; ) {
      const member = new Der(this.#source, at, this.#end)
      use(member)
      at = member.#end
    }
  }
}

/** Reads bytes that are exactly one element. @throws Error when they are not */
export function readDer(bytes: Buffer): Der {
  const one = new Der(bytes, 0, bytes.length)
  if (one.bytes.length !== bytes.length) throw new Error('not DER: it goes on after its end')
  return one
}

export function membersIn(der: Der | undefined, tag: number): readonly Der[] {
  return expectTag(der, tag).members()
}

export function expectTag(der: Der | undefined, tag: number): Der {
  if (der?.tag === tag) return der
  throw new Error(`not the DER that was expected: ${der?.tag ?? 'nothing'} where ${tag} belongs`)
}

/** An object identifier in dotted decimals (X.690 section 8.19). */
export function oidOf(element: Der | undefined): string {
  const arcs: number[] = []
  let arc = 0
  for (const byte of expectTag(element, TAG.oid).content) {
    arc = arc * 128 + (byte & 0x7f)
    if (byte >= 0x80) continue
    // The first two arcs share a number.
    const first = Math.min(Math.floor(arc / 40), 2)
    if (arcs.length === 0) arcs.push(first, arc - 40 * first)
    else arcs.push(arc)
    arc = 0
  }
  return arcs.join('.')
}

/** Milliseconds since the epoch (RFC 5280 section 4.1.2.5). @throws Error when it is no time */
export function timeOf(time: Der): number {
  const { tag } = time
  const isTime = tag === TAG.utcTime ? time.length === 13 : tag === TAG.time && time.length === 15
  if (!isTime || !time.isZulu) throw new Error('not a time')
  const inCentury = time.pairAt(13)
  const century = tag === TAG.time ? time.pairAt(15) : inCentury < 50 ? 20 : 19
  const [month, day, hour] = [time.pairAt(11), time.pairAt(9), time.pairAt(7)]
  const [minute, second] = [time.pairAt(5), time.pairAt(3)]
  // `Date` carries an excess over to the next unit, and takes the years 0 to 99 for 1900 to 1999.
  if (hour > 23 || minute > 59 || second > 59 || century < 1) throw new Error('no such time')
  const date = new Date(Date.UTC(century * 100 + inCentury, month - 1, day, hour, minute, second))
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) throw new Error('no such day')
  return date.getTime()
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

/** @param bytes an unsigned number, most significant first */
export function derInteger(bytes: Uint8Array): Buffer {
  const from = bytes.findIndex((byte) => byte !== 0)
  const digits = from < 0 ? Buffer.from([0]) : bytes.subarray(from)
  return der(TAG.integer, (digits[0] as number) >= 0x80 ? Buffer.concat([Buffer.from([0]), digits]) : digits)
}
