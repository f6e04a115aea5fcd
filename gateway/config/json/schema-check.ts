import type { ErrorObject } from 'ajv'
import { closestTo } from './did-you-mean.ts'
import { childPath, pathOfPointer } from './json-path.ts'

/** One thing wrong in a value. */
export interface Problem {
  /** JSON path. */
  readonly path: string
  readonly reason: string
}

/** A compiled schema: fills its defaults into the value and collects all errors. */
export interface Validate {
  (value: unknown): unknown
  errors?: readonly ErrorObject[] | null
}

/** The faults that a schema finds in a value. */
export interface SchemaReport {
  /** One per cause: a misspelt key is not also a missing one, an empty text does not also break its pattern. */
  readonly problems: readonly Problem[]
  /** JSON paths where the value is not what its type promises; only `$` when there are very many. */
  readonly unsound: readonly string[]
  /** Errors that were counted but not turned into problems. */
  readonly more: number
}

/** The part of a schema that bounds its lists. */
interface Bounded {
  readonly properties?: object
}

/** Fills the schema's defaults into the value and names everything in it that the schema does not allow. */
export type SchemaCheck = (value: unknown) => SchemaReport

/** Turning an error into a problem is slow, and a file may have an error in each of 250,000 values. */
const MAX_ERRORS = 10_000
/** By JSON path: keys of earlier versions, with what to do instead. */
const REMOVED_KEYS: ReadonlyMap<string, string> = new Map([
  ['$.overload', 'it was removed: bound requests with maxInFlight and addressRate'],
])
/** By JSON path without the places in lists: values of earlier versions, with what to do instead. */
const REMOVED_VALUES: ReadonlyMap<string, Readonly<Record<string, string>>> = new Map([
  ['$.limits[].per', { principal: 'it was removed: write "caller", which means the same' }],
])
const TYPE_WORDS = new Map([
  ['string', 'text'],
  ['integer', 'a whole number'],
  ['array', 'an array'],
  ['object', 'an object'],
])

/**
 * Wraps a compiled schema and reports its errors in our own sentences. Operators' editors use the same schema.
 */
export function schemaCheck(validate: Validate, { properties = {} }: Bounded = {}): SchemaCheck {
  return (value) => {
    const tooLong = tooLongList(value, properties)
    if (tooLong !== undefined) return { problems: [tooLong], unsound: ['$'], more: 0 }
    validate(value)
    const errors = validate.errors ?? []
    const more = Math.max(0, errors.length - MAX_ERRORS)
    if (more > 0) return { problems: problemsOf(errors.slice(0, MAX_ERRORS)), unsound: ['$'], more }
    return { problems: problemsOf(errors), unsound: errors.map(pathOf), more }
  }
}

/** Finds a list that is too long before each of its rows is checked. */
function tooLongList(value: unknown, properties: object): Problem | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  for (const [key, part] of Object.entries(properties)) {
    const { maxItems }: { readonly maxItems?: number } = part
    const list: unknown = (value as Record<string, unknown>)[key]
    if (maxItems === undefined || !Array.isArray(list) || list.length <= maxItems) continue
    return { path: childPath('$', key), reason: atMost(maxItems, list) }
  }
  return undefined
}

function atMost(maxItems: number, list: readonly unknown[]): string {
  return `must have at most ${maxItems} entries, but has ${list.length}`
}

function problemsOf(errors: readonly ErrorObject[]): Problem[] {
  const problems = new Map<string, Problem>()
  const meant = new Set<string>()
  for (const error of errors) {
    if (error.keyword !== 'additionalProperties') continue
    const known = Object.keys(error.parentSchema?.properties ?? {})
    const suggestion = closestTo(error.params.additionalProperty, known)
    if (suggestion !== undefined) meant.add(childPath(pathOfPointer(error.instancePath), suggestion))
    const hint =
      suggestion === undefined ? `the keys are ${quoteAll(known)}` : `did you mean "${suggestion}"?`
    const path = pathOf(error)
    problems.set(path, { path, reason: `is not a known key; ${REMOVED_KEYS.get(path) ?? hint}` })
  }
  for (const error of errors) {
    const path = pathOf(error)
    if (problems.has(path) || (error.keyword === 'required' && meant.has(path))) continue
    problems.set(path, { path, reason: sentence(error) })
  }
  return [...problems.values()]
}

function pathOf(error: ErrorObject): string {
  const path = pathOfPointer(error.instancePath)
  const key = error.params.missingProperty ?? error.params.additionalProperty
  return key === undefined ? path : childPath(path, key)
}

function sentence(error: ErrorObject): string {
  const found = describeValue(error.data)
  const { params, parentSchema } = error
  switch (error.keyword) {
    case 'required':
      return 'is missing'
    case 'type':
      return `must be ${typeWords(params.type)}, but is ${found}${unitHint(error)}`
    case 'enum':
      return `must be ${quoteAll(params.allowedValues, ' or ')}, but is ${found}${enumHint(error)}`
    case 'pattern':
      return `${parentSchema?.patternErrorMessage ?? `must match ${params.pattern}`}, but is ${found}${unitHint(error)}`
    case 'minimum':
    case 'maximum':
      return `must be between ${parentSchema?.minimum} and ${parentSchema?.maximum}, but is ${found}`
    case 'minLength':
    case 'minItems':
      return 'must not be empty'
    case 'maxItems':
      return atMost(params.limit, error.data as unknown[])
    case 'maxLength':
      return `must have at most ${params.limit} characters, but has ${[...String(error.data)].length}`
    case 'uniqueItems':
      return `must not hold ${describeValue((error.data as unknown[])[params.j])} twice`
    default:
      return `${error.message}, but is ${found}`
  }
}

function enumHint(error: ErrorObject): string {
  if (typeof error.data !== 'string') return ''
  const removed = REMOVED_VALUES.get(pathOf(error).replace(/\[\d+\]/g, '[]'))?.[error.data]
  if (removed !== undefined) return `; ${removed}`
  const words = error.params.allowedValues.filter((value: unknown) => typeof value === 'string')
  const meant = closestTo(error.data, words)
  return meant === undefined ? '' : `; did you mean "${meant}"?`
}

/** What a number with a unit that is missing or written otherwise was meant to be. */
function unitHint({ data, params, parentSchema }: ErrorObject): string {
  const [, digits = '', unit = ''] = /^\s*([0-9]{1,15})\s*(?:([smhd])[a-z]*)?\s*$/i.exec(String(data)) ?? []
  if (digits === '' || typeof data === 'object' || /ms|milli/i.test(String(data))) return ''
  if (params.type === 'integer') return unit === '' ? `; did you mean ${Number(digits)}?` : ''
  const meant = `${Number(digits)}${unit.toLowerCase() || 's'}`
  const { pattern } = parentSchema ?? {}
  return pattern !== undefined && new RegExp(pattern, 'u').test(meant) ? `; did you mean "${meant}"?` : ''
}

function typeWords(types: string | string[]): string {
  return [types]
    .flat()
    .map((type) => TYPE_WORDS.get(type) ?? type)
    .join(' or ')
}

function quoteAll(words: readonly string[], lastSeparator = ' and '): string {
  const quoted = words.map((word) => JSON.stringify(word))
  const last = quoted.pop() ?? ''
  return quoted.length === 0 ? last : quoted.join(', ') + lastSeparator + last
}

/** Describes a value briefly, for an operator to find it in the file. */
export function describeValue(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : 'an array'
  if (typeof value === 'object' && value !== null) return 'an object'
  const text = JSON.stringify(value) ?? String(value)
  return text.length > 80 ? `${text.slice(0, 79)}…` : text
}
