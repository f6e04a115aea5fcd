/** A value of a structured field (RFC 9651 section 3.3), except dates and display strings. `text` is canonical. */
export type BareItem = { readonly text: string } & (
  | { readonly kind: 'integer' | 'decimal'; readonly value: number }
  | { readonly kind: 'string' | 'token'; readonly value: string }
  | { readonly kind: 'bytes'; readonly value: Buffer }
  | { readonly kind: 'boolean'; readonly value: boolean }
)

export interface FieldItem {
  readonly item: BareItem
  readonly items?: undefined
  readonly parameters: ReadonlyMap<string, BareItem>
  readonly text: string
}

interface InnerList extends Omit<FieldItem, 'item' | 'items'> {
  readonly items: readonly FieldItem[]
  readonly item?: undefined
}

export type FieldDictionary = ReadonlyMap<string, FieldItem | InnerList>

const KEY = /[a-z*][a-z0-9_.*-]*/y
const NUMBER = /-?(?:\d{1,12}\.\d{1,3}|\d{1,15})(?![\d.])/y
const STRING = /"(?:[ !#-[\]-~]|\\["\\])*"/y
const TOKEN = /[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*/y
const BYTES = /:[A-Za-z0-9+/]*={0,2}:/y
const FLAG = /\?[01]/y
/** Patterns by the first character. All other items are tokens or numbers. */
const KINDS: Readonly<Record<string, RegExp>> = { '"': STRING, ':': BYTES, '?': FLAG }
const SPACES_AND_TABS = /[ \t]*/y
const TRUE: BareItem = { kind: 'boolean', value: true, text: '?1' }
const NO_PARAMETERS: FieldItem['parameters'] = new Map()

/**
 * Parses a dictionary (RFC 9651 section 3.2) from the lines of a field, joined by commas; undefined when
 * invalid. Also refuses repeated keys and non-canonical base64, which RFC 9651 allows, because two readers
 * could take two different values.
 */
export function parseDictionary(text: string): FieldDictionary | undefined {
  const reader = new Reader(text)
  const members = new Map<string, FieldItem | InnerList>()
  reader.skipSpaces()
  while (!reader.isOver) {
    const key = reader.take(KEY)
    if (key === undefined || members.has(key)) return undefined
    const isTrue = !reader.takes('=')
    const member = isTrue ? reader.withParameters(TRUE) : (reader.innerList() ?? reader.item())
    if (member === undefined) return undefined
    members.set(key, member)
    reader.take(SPACES_AND_TABS)
    if (reader.isOver) return members
    if (!reader.takes(',')) return undefined
    reader.take(SPACES_AND_TABS)
    if (reader.isOver) return undefined
  }
  return members
}

/** Parses an item (RFC 9651 section 3.3), as strictly as `parseDictionary`. */
export function parseItem(text: string): FieldItem | undefined {
  const reader = new Reader(text)
  const item = reader.item()
  return reader.isOver ? item : undefined
}

/** RFC 9651 section 4.1.2. */
export function serializeDictionary(members: FieldDictionary): string {
  return [...members]
    .map(([key, { item, text }]) => key + (item?.value === true ? text.slice(2) : `=${text}`))
    .join(', ')
}

export function serializeParameters(parameters: Iterable<readonly [string, BareItem]>): string {
  let written = ''
  for (const [name, { value, text }] of parameters)
    written += value === true ? `;${name}` : `;${name}=${text}`
  return written
}

/** Reads from left to right. Its methods return undefined for what is absent or malformed. */
class Reader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  get isOver(): boolean {
    return this.#at === this.#text.length
  }

  /** @param pattern a sticky one. `test` makes no array for each match; `exec` does. */
  take(pattern: RegExp): string | undefined {
    const start = this.#at
    pattern.lastIndex = start
    if (!pattern.test(this.#text)) return undefined
    this.#at = pattern.lastIndex
    return this.#text.slice(start, this.#at)
  }

  takes(character: string): boolean {
    const isThere = this.#text[this.#at] === character
    if (isThere) this.#at++
    return isThere
  }

  skipSpaces(): boolean {
    const start = this.#at
    while (this.#text[this.#at] === ' ') this.#at++
    return this.#at > start
  }

  innerList(): InnerList | undefined {
    if (!this.takes('(')) return undefined
    const items: FieldItem[] = []
    let list = '('
    for (;;) {
      const hasSpace = this.skipSpaces()
      if (this.takes(')')) break
      const item = items.length === 0 || hasSpace ? this.item() : undefined
      if (item === undefined) return undefined
      list += items.length === 0 ? item.text : ` ${item.text}`
      items.push(item)
    }
    const parameters = this.#parameters()
    return parameters && { items, parameters, text: `${list})${serializeParameters(parameters)}` }
  }

  item(): FieldItem | undefined {
    const item = this.#bareItem()
    return item && this.withParameters(item)
  }

  withParameters(item: BareItem): FieldItem | undefined {
    const parameters = this.#parameters()
    return parameters && { item, parameters, text: item.text + serializeParameters(parameters) }
  }

  #parameters(): FieldItem['parameters'] | undefined {
    if (this.#text[this.#at] !== ';') return NO_PARAMETERS
    const parameters = new Map<string, BareItem>()
    while (this.takes(';')) {
      this.skipSpaces()
      const name = this.take(KEY)
      const value = this.takes('=') ? this.#bareItem() : TRUE
      if (name === undefined || value === undefined || parameters.has(name)) return undefined
      parameters.set(name, value)
    }
    return parameters
  }

  #bareItem(): BareItem | undefined {
    const kind = KINDS[this.#text[this.#at] ?? '']
    if (kind === undefined) return this.#tokenOrNumber()
    const text = this.take(kind)
    if (text === undefined) return undefined
    if (kind === FLAG) return { kind: 'boolean', value: text === '?1', text }
    const inside = text.slice(1, -1)
    if (kind === STRING)
      return { kind: 'string', value: inside.includes('\\') ? inside.replace(/\\(.)/g, '$1') : inside, text }
    const value = Buffer.from(inside, 'base64')
    return value.toString('base64') === inside ? { kind: 'bytes', value, text } : undefined
  }

  #tokenOrNumber(): BareItem | undefined {
    const number = this.take(NUMBER)
    if (number !== undefined) return numberOf(number)
    const token = this.take(TOKEN)
    return token === undefined ? undefined : { kind: 'token', value: token, text: token }
  }
}

/** `1.0` is a decimal, not the integer 1. */
function numberOf(text: string): BareItem {
  const value = Number(text)
  if (!text.includes('.')) return { kind: 'integer', value, text: String(value) }
  return { kind: 'decimal', value, text: value.toFixed(3).replace(/0{1,2}$/, '') }
}
