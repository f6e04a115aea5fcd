import { closestTo, didYouMean } from './did-you-mean.ts'
import { childPath } from './json-path.ts'

export interface Problem {
  /** JSON path. */
  readonly path: string
  readonly reason: string
}

export interface SchemaReport {
  /** One for each cause: a misspelt key is not also a missing one. */
  readonly problems: readonly Problem[]
  /** JSON paths of values that the schema refuses, or of missing ones; only `$` when `more` is not 0. */
  readonly unsound: readonly string[]
  /** Faults that were counted but not turned into problems. */
  readonly more: number
}

/** The part of JSON Schema 2020-12 that our schemas use. */
export interface Schema {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  /** A regular expression, read with the flag `u`. */
  readonly pattern?: string
  /** The sentence for a text that the pattern refuses; editors show it too. */
  readonly patternErrorMessage?: string
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: boolean
  readonly items?: Schema
  readonly minProperties?: number
  readonly maxProperties?: number
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: boolean | Schema
  readonly propertyNames?: { readonly pattern: string; readonly patternErrorMessage: string }
  /** The sentence for any fault of an object itself, or of its keys. */
  readonly errorMessage?: string
  /** True where a secret may stand by mistake: no fault repeats the value. */
  readonly writeOnly?: boolean
  readonly default?: unknown
}

/** Fills defaults into the value, and finds what the schema does not allow. */
export type SchemaCheck = (value: unknown) => SchemaReport

/** The most faults that are put into words, because that is slow and a file may have 250,000. */
const MAX_PROBLEMS = 10_000
/** The advice to those who look for worker threads. */
export const SEVERAL_GATEWAYS =
  'start several gateways on one port, each with GATEWAY_REUSE_PORT=true and a data directory of its own, and all with one GATEWAY_STORE'
/** Keys of earlier versions, by JSON paths without indexes. */
const REMOVED_KEYS: ReadonlyMap<string, string> = new Map([
  ['$.overload', 'it was removed: bound requests with maxInFlight and addressRate'],
  [
    '$.audit.retention.minFreeBytes',
    'it was removed: no segment is removed before "keep" is over. Watch the disk, or shorten "keep"',
  ],
  ['$.workers', `it was removed, and a gateway has no workers: for more cores ${SEVERAL_GATEWAYS}`],
])
/** Values of earlier versions, by paths of the same form. */
const REMOVED_VALUES: ReadonlyMap<string, Readonly<Record<string, string>>> = new Map([
  ['$.limits[].per', { principal: 'it was removed: write "caller", which means the same' }],
])
/** The end of a sentence, which shows the value. */
const FOUND = /, but is .*$/su
const TYPE_WORDS = new Map([
  ['string', 'text'],
  ['integer', 'a whole number'],
  ['number', 'a number'],
  ['boolean', 'true or false'],
  ['array', 'an array'],
  ['object', 'an object'],
])

export function schemaCheck(schema: Schema): SchemaCheck {
  return (value) => {
    const inspection = new Inspection()
    inspection.visit(schema, value)
    const { problems, unsound, more } = inspection
    return { problems, unsound: more > 0 ? ['$'] : unsound, more }
  }
}

class Inspection {
  readonly problems: Problem[] = []
  readonly unsound: string[] = []
  more = 0
  readonly #steps: (string | number)[] = []
  /** Levels of `writeOnly` around this value. */
  #hidden = 0
  /** True while the value stands under a refused name, which no fault may show. */
  #isUnnamed = false

  visit(schema: Schema, value: unknown): void {
    const isObject = isOfType('object', value)
    if (isObject) fillDefaults(schema, value as Record<string, unknown>)
    const isHidden = schema.writeOnly === true
    if (isHidden) this.#hidden += 1
    const reason = faultOf(schema, value)
    if (reason !== undefined) this.#refuse((path) => schema.errorMessage ?? reason + removalHint(path, value))
    if (isObject) this.#visitKeys(schema, value as Record<string, unknown>)
    else if (Array.isArray(value)) this.#visitEntries(schema, value)
    if (isHidden) this.#hidden -= 1
  }

  #visitEntries({ items, maxItems = Number.POSITIVE_INFINITY }: Schema, list: readonly unknown[]): void {
    if (list.length > maxItems && this.#steps.length === 1) {
      // Rules skip an unsound file, so no rule looks at each row of a list that is too long.
      this.unsound.push('$')
      return
    }
    if (items === undefined) return
    for (const [index, entry] of list.entries()) this.#visitAt(index, items, entry)
  }

  #visitKeys(schema: Schema, value: Record<string, unknown>): void {
    const { properties = {}, additionalProperties, propertyNames, required = [], errorMessage } = schema
    const meant = new Set<string>()
    for (const key of Object.keys(value)) {
      if (Object.hasOwn(properties, key) || additionalProperties === undefined) continue
      if (typeof additionalProperties === 'object') {
        const isNamed = propertyNames === undefined || patternOf(propertyNames.pattern).test(key)
        if (!isNamed) this.#refuse(() => propertyNames.patternErrorMessage)
        this.#isUnnamed = !isNamed
        this.#visitAt(key, additionalProperties, value[key])
        this.#isUnnamed = false
      } else if (errorMessage !== undefined) this.#refuse(() => errorMessage, key)
      else this.#refuseKey(key, Object.keys(properties), meant)
    }
    for (const key of required) {
      if (value[key] !== undefined) continue
      if (meant.has(key)) this.unsound.push(this.#path(key))
      else this.#refuse(() => 'is missing', key)
    }
    for (const key in properties) {
      if (value[key] !== undefined) this.#visitAt(key, properties[key] as Schema, value[key])
    }
  }

  #visitAt(step: string | number, schema: Schema, value: unknown): void {
    this.#steps.push(step)
    this.visit(schema, value)
    this.#steps.pop()
  }

  #refuseKey(key: string, known: readonly string[], meant: Set<string>): void {
    this.#refuse((path) => {
      const suggestion = closestTo(key, known)
      if (suggestion !== undefined) meant.add(suggestion)
      const hint =
        suggestion === undefined ? `the keys are ${quoteAll(known)}` : `did you mean "${suggestion}"?`
      return `is not a known key; ${REMOVED_KEYS.get(withoutPlaces(path)) ?? hint}`
    }, key)
  }

  #refuse(sentence: (path: string) => string, key?: string): void {
    if (this.problems.length >= MAX_PROBLEMS) {
      this.more += 1
      return
    }
    const path = this.#path(key)
    this.unsound.push(path)
    if (this.#isUnnamed) return
    const reason = sentence(path)
    this.problems.push({ path, reason: this.#hidden > 0 ? reason.replace(FOUND, '') : reason })
  }

  #path(key?: string): string {
    const path = this.#steps.reduce<string>(childPath, '$')
    return key === undefined ? path : childPath(path, key)
  }
}

function fillDefaults({ properties = {} }: Schema, value: Record<string, unknown>): void {
  for (const key in properties) {
    const preset = properties[key]?.default
    if (value[key] !== undefined || preset === undefined) continue
    value[key] = typeof preset === 'object' ? structuredClone(preset) : preset
  }
}

/** Finds the first fault of a value itself, not of what is below it. */
function faultOf(schema: Schema, value: unknown): string | undefined {
  const { type } = schema
  const isAllowed = (one: string) => isOfType(one, value)
  if (type !== undefined && !(typeof type === 'string' ? isAllowed(type) : type.some(isAllowed))) {
    return `must be ${typeWords([type].flat())}, but is ${describeValue(value)}${unitHint(schema, value)}`
  }
  if (schema.enum?.includes(value) === false) {
    const hint = enumHint(schema.enum, value)
    return `must be ${quoteAll(schema.enum, ' or ')}, but is ${describeValue(value)}${hint}`
  }
  if (typeof value === 'string') return textFault(schema, value)
  if (typeof value === 'number') return numberFault(schema, value)
  if (Array.isArray(value)) return listFault(schema, value)
  return typeof value === 'object' && value !== null ? sizeFault(schema, value) : undefined
}

function isOfType(type: string, value: unknown): boolean {
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'number') return Number.isFinite(value)
  if (type === 'array') return Array.isArray(value)
  return typeof value === type && value !== null && !Array.isArray(value)
}

function textFault(schema: Schema, text: string): string | undefined {
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern } = schema
  const characters = text.length > maxLength ? [...text].length : text.length
  if (characters > maxLength) return `must have at most ${maxLength} characters, but has ${characters}`
  if (characters < minLength) return 'must not be empty'
  if (pattern === undefined || patternOf(pattern).test(text)) return undefined
  const sentence = schema.patternErrorMessage ?? `must match ${pattern}`
  return `${sentence}, but is ${describeValue(text)}${unitHint(schema, text)}`
}

const patterns = new Map<string, RegExp>()

function patternOf(source: string): RegExp {
  return patterns.getOrInsertComputed(source, () => new RegExp(source, 'u'))
}

function numberFault({ minimum, maximum }: Schema, value: number): string | undefined {
  if (value >= (minimum ?? value) && value <= (maximum ?? value)) return undefined
  const bounds = maximum === undefined ? `at least ${minimum}` : `between ${minimum ?? 0} and ${maximum}`
  return `must be ${bounds}, but is ${value}`
}

function listFault(schema: Schema, list: readonly unknown[]): string | undefined {
  const { minItems = 0, maxItems = Number.POSITIVE_INFINITY } = schema
  if (list.length < minItems)
    return minItems === 1
      ? 'must not be empty'
      : `must have at least ${minItems} entries, but has ${list.length}`
  if (list.length > maxItems) return `must have at most ${maxItems} entries, but has ${list.length}`
  if (schema.uniqueItems !== true) return undefined
  const seen = new Set<unknown>()
  const again = list.find((entry) => seen.size === seen.add(entry).size)
  return again === undefined ? undefined : `must not hold ${describeValue(again)} twice`
}

function sizeFault({ minProperties = 0, maxProperties }: Schema, value: object): string | undefined {
  const { length } = Object.keys(value)
  if (length < minProperties) return 'must not be empty'
  if (maxProperties === undefined || length <= maxProperties) return undefined
  return `must have at most ${maxProperties} keys, but has ${length}`
}

function withoutPlaces(path: string): string {
  return path.replace(/\[\d+\]/g, '[]')
}

function removalHint(path: string, value: unknown): string {
  const hint = REMOVED_VALUES.get(withoutPlaces(path))?.[typeof value === 'string' ? value : '']
  return hint === undefined ? '' : `; ${hint}`
}

function enumHint(allowed: readonly unknown[], value: unknown): string {
  const texts = allowed.filter((one) => typeof one === 'string')
  return typeof value === 'string' ? didYouMean(value, texts) : ''
}

/** Guesses the span that a number with a missing or misspelt unit was meant to be. */
function unitHint({ type, pattern }: Schema, value: unknown): string {
  if (typeof value === 'object') return ''
  const [, digits = '', unit = ''] = /^\s*([0-9]{1,15})\s*(?:([smhd])[a-z]*)?\s*$/i.exec(String(value)) ?? []
  if (digits === '' || /ms|milli/i.test(String(value))) return ''
  if (type === 'integer') return unit === '' ? `; did you mean ${Number(digits)}?` : ''
  const meant = `${Number(digits)}${unit.toLowerCase() || 's'}`
  return pattern !== undefined && patternOf(pattern).test(meant) ? `; did you mean "${meant}"?` : ''
}

function typeWords(types: readonly string[]): string {
  return types.map((type) => TYPE_WORDS.get(type) ?? type).join(' or ')
}

function quoteAll(words: readonly unknown[], lastSeparator = ' and '): string {
  const quoted = words.map((word) => JSON.stringify(word))
  const last = quoted.pop() ?? ''
  return quoted.length === 0 ? last : quoted.join(', ') + lastSeparator + last
}

export function describeValue(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : 'an array'
  if (typeof value === 'object' && value !== null) return 'an object'
  const text = JSON.stringify(value) ?? String(value)
  return text.length > 80 ? `${text.slice(0, 79)}…` : text
}
