import { isText, isToken, withoutSpaceAround } from './characters.ts'

/** Limit of the names in `lowerNames`: clients can make up any number. */
const MAX_KNOWN_NAMES = 512
const lowerNames = new Map<string, string>()

/** One field of a head. Immutable. */
export class Field {
  readonly name: string
  readonly lower: string
  readonly value: string
  /** `name: value` with its CR LF. */
  readonly line: string

  /** Checks nothing. The caller passes a token as the name and text as the value (RFC 9110 section 5). */
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

/** @throws TypeError when the name is not a token or the value not text: a line feed would inject a field */
export function checkedField(name: string, value: string): Field {
  if (!isToken(name)) throw new TypeError('a field name that is not a token')
  if (!isText(value)) throw new TypeError(`a control character in ${name}`)
  return new Field(name, value)
}

/** @param lower the name in lower case */
export function valueIn(fields: readonly Field[], lower: string): string | undefined {
  for (const field of fields) if (field.lower === lower) return field.value
  return undefined
}

/** Joins the lines of a field in order (RFC 9110 section 5.3). @param name in lower case */
export function combinedValue(fields: readonly Field[], name: string): string | undefined {
  let combined: string | undefined
  for (const { lower, value } of fields)
    if (lower === name) combined = combined === undefined ? value : `${combined}, ${value}`
  return combined
}

/** True when a Connection field has the option, given in lower case (RFC 9110 section 7.6.1). */
export function hasOption(options: string, option: string): boolean {
  if (options === option) return true
  if (options === 'keep-alive') return false
  return options.split(',').some((one) => withoutSpaceAround(one).toLowerCase() === option)
}
