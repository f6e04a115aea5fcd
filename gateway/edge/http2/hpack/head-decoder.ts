import { isText, withoutSpaceAround } from '../../syntax/characters.ts'
import { Field } from '../../syntax/field.ts'
import { decodeHuffman } from './huffman.ts'
import { STATIC_TABLE } from './static-table.ts'

/** Size of an entry of the table, besides its name and value (RFC 7541 section 4.1). */
const ENTRY_BYTES = 32
const COLON = 0x3a
const NOTHING = Buffer.alloc(0)
/** A token without capitals (RFC 9113 section 8.2.1). */
const LOWER_NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/
const LOWER_PSEUDO = /^:[a-z]+$/

/** Immutable: the table may hold it for many heads. */
export class HeadField {
  readonly field: Field
  readonly isPseudo: boolean
  /** True when white space stood around the value. `field` has none. */
  readonly isPadded: boolean
  /** A fault of the field in any message (RFC 9113 section 8.2.1). */
  readonly fault: string | undefined
  readonly tableBytes: number

  constructor(name: string, value: string) {
    this.field = new Field(name, withoutSpaceAround(value))
    this.isPseudo = name.charCodeAt(0) === COLON
    this.isPadded = this.field.value.length !== value.length
    this.fault = faultOf(name, value, this.isPseudo)
    this.tableBytes = name.length + value.length + ENTRY_BYTES
  }
}

function faultOf(name: string, value: string, isPseudo: boolean): string | undefined {
  if (!(isPseudo ? LOWER_PSEUDO : LOWER_NAME).test(name)) return 'a field without a proper name'
  return isText(value) ? undefined : 'a control character in a field'
}

const STATIC: readonly HeadField[] = STATIC_TABLE.map((entry) => {
  const [, name = '', value = ''] = /^(:?[^:]+)(?:: (.*))?$/.exec(entry) ?? []
  return new HeadField(name, value)
})

export interface HeadSink {
  take(field: HeadField): void
}

/** Decodes header blocks (RFC 7541). The connection must end after an invalid block, because the table may be wrong. */
export class HeadDecoder {
  readonly #maxTableBytes: number
  /** The newest last. */
  readonly #table: HeadField[] = []
  #tableBytes = 0
  /** The client's own bound, at most `maxTableBytes`. */
  #limitBytes: number
  #block: Buffer = NOTHING
  #at = 0
  #isFaulty = false
  fields = 0

  /** @param maxTableBytes the value of our SETTINGS_HEADER_TABLE_SIZE */
  constructor(maxTableBytes: number) {
    this.#maxTableBytes = maxTableBytes
    this.#limitBytes = maxTableBytes
  }

  /** @returns false when the block is not valid */
  decode(block: Buffer, sink: HeadSink): boolean {
    this.#block = block
    this.#at = 0
    this.#isFaulty = false
    this.fields = 0
    let mayResize = true
    while (this.#at < block.length && !this.#isFaulty) {
      const first = block[this.#at] as number
      if ((first & 0xe0) === 0x20) {
        // This is allowed at the beginning of a block only (RFC 7541 section 4.2).
        if (mayResize) this.#resize(this.#integer(5))
        else this.#isFaulty = true
        continue
      }
      mayResize = false
      this.fields++
      const field = this.#next(first)
      if (field !== undefined && !this.#isFaulty) sink.take(field)
    }
    this.#block = NOTHING
    return !this.#isFaulty
  }

  #next(first: number): HeadField | undefined {
    if (first & 0x80) return this.#entry(this.#integer(7))
    const isKept = (first & 0x40) !== 0
    const index = this.#integer(isKept ? 6 : 4)
    const name = index === 0 ? this.#text() : this.#entry(index)?.field.name
    const value = this.#text()
    if (name === undefined || value === undefined || this.#isFaulty) {
      this.#isFaulty = true
      return undefined
    }
    const field = new HeadField(name, value)
    if (isKept) {
      this.#tableBytes += field.tableBytes
      this.#table.push(field)
      this.#evict()
    }
    return field
  }

  #entry(index: number): HeadField | undefined {
    const found =
      index <= STATIC.length ? STATIC[index - 1] : this.#table[this.#table.length - (index - STATIC.length)]
    if (found === undefined) this.#isFaulty = true
    return found
  }

  #resize(bytes: number): void {
    if (bytes > this.#maxTableBytes) this.#isFaulty = true
    else this.#limitBytes = bytes
    this.#evict()
  }

  #evict(): void {
    while (this.#tableBytes > this.#limitBytes) this.#tableBytes -= this.#table.shift()?.tableBytes ?? 0
  }

  /** RFC 7541 section 5.1. @param bits how many bits of the first byte belong to it */
  #integer(bits: number): number {
    const most = (1 << bits) - 1
    let value = (this.#block[this.#at++] as number) & most
    if (value < most) return value
    for (let shift = 0; shift <= 21; shift += 7) {
      const byte = this.#block[this.#at++]
      if (byte === undefined) break
      value += (byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    this.#isFaulty = true
    return 0
  }

  /** RFC 7541 section 5.2. @returns latin1; undefined when it is not valid */
  #text(): string | undefined {
    const block = this.#block
    const first = block[this.#at]
    if (first === undefined || this.#isFaulty) return undefined
    const length = this.#integer(7)
    const from = this.#at
    const to = from + length
    this.#at = to
    if (to > block.length || this.#isFaulty) return undefined
    return first & 0x80 ? decodeHuffman(block, from, to) : block.toString('latin1', from, to)
  }
}
