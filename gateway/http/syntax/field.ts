import { isText, isToken } from './characters.ts'

/** Names come again and again; those of one process are few, unless somebody makes them up. */
const MAX_KNOWN_NAMES = 512
const lowerNames = new Map<string, string>()

/** One field of a head, on its way from one side to the other. Immutable, and fit for the wire as it is. */
export class Field {
  /** As written. */
  readonly name: string
  /** The name in lower case. */
  readonly lower: string
  readonly value: string
  /** `name: value` with its CR LF. */
  readonly line: string

  /** For a name that is a token and a value that is text (RFC 9110 section 5): nothing is checked here. */
  constructor(name: string, value: string, line = `${name}: ${value}\r\n`) {
    this.name = name
    this.lower = lowerNames.get(name) ?? lowerOf(name)
    this.value = value
    this.line = line
  }
}

function lowerOf(name: string): string {
  const lower = name.toLowerCase()
  if (lowerNames.size >= MAX_KNOWN_NAMES) lowerNames.clear()
  lowerNames.set(name, lower)
  return lower
}

/** @throws TypeError when the name is no token, or the value no text: a line feed in it would make another message. */
export function checkedField(name: string, value: string): Field {
  if (!isToken(name)) throw new TypeError('a field name that is no token')
  if (!isText(value)) throw new TypeError(`a control character in ${name}`)
  return new Field(name, value)
}

/** A flat list, name and value in turn, as fields. */
export function fieldsOf(flat: readonly string[]): Field[] {
  const fields: Field[] = []
  for (let i = 0; i + 1 < flat.length; i += 2) {
    fields.push(new Field(flat[i] as string, flat[i + 1] as string))
  }
  return fields
}

/** The value of a field, its name given in lower case: the first, when there are several. */
export function valueIn(fields: readonly Field[], lower: string): string | undefined {
  for (const field of fields) if (field.lower === lower) return field.value
  return undefined
}
