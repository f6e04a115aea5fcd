import { percentDecoded } from '../../edge/syntax/characters.ts'
import { followed } from './references.ts'

const DATA: ReadonlySet<string> = new Set(['default', 'enum', 'const'])
/** Keywords that are left out. In an example, `$id` would name a schema. A mistake in another makes a schema invalid. */
const LEFT_OUT: ReadonlySet<string> = new Set(
  'example examples title description deprecated writeOnly $comment $schema'.split(' '),
)
/** Keywords whose value has names as its keys; a name may be `example`. */
const NAMES =
  /^(?:properties|patternProperties|dependentSchemas|dependentRequired|mapping|\$defs|definitions|paths|schemas|parameters|requestBodies|pathItems|mediaTypes)$/
/** Keywords that apply further schemas. */
const APPLYING =
  /^(?:properties|patternProperties|additionalProperties|items|prefixItems|contains|allOf|anyOf|oneOf|not|if|dependentSchemas|unevaluatedProperties|unevaluatedItems)$/

/** Our keyword, which counts applications of a schema, because recursive alternatives double them at each level. */
export const COUNTED = 'x-countersign-counted'
const APPLIED_STEPS = 40
/** An `enum` of more values costs steps, because they are compared one by one. */
const FEW_VALUES = 8
const VALUE_STEPS = 2
/** Keywords that count in a schema with `$ref`. OpenAPI 3.0 ignores the last two there, but authors mean them. */
const BESIDE_REF: ReadonlySet<string> = new Set(['$ref', 'nullable', 'readOnly'])
/** Beside these keywords the library does not let `nullable` allow null. */
const BESIDE_NULL = ['allOf', 'anyOf', 'oneOf', '$ref']
/** The depth to which schemas of one value are followed. */
const MAX_DEPTH = 8

/**
 * Turns the schemas into JSON Schema 2020-12 for requests: translates `nullable` and exclusive bounds of OpenAPI 3.0,
 * does not require `readOnly` properties, and leaves out examples.
 */
export function asJsonSchemas(document: object): object {
  return converted(document, document, false) as object
}

function converted(document: object, value: unknown, areNames: boolean): unknown {
  if (Array.isArray(value)) return value.map((item) => converted(document, item, false))
  if (typeof value !== 'object' || value === null) return value
  const written = Object.entries(value).filter(([key]) => areNames || !LEFT_OUT.has(key))
  const parts = written.map(([key, part]) => [
    key,
    !areNames && DATA.has(key) ? part : converted(document, part, !areNames && NAMES.test(key)),
  ])
  const copy: Record<string, unknown> = Object.fromEntries(parts)
  return areNames ? copy : schemaFixed(document, copy)
}

/** The pointers of all places in the document that a schema refers to. Data and extensions hold no schemas. */
export function referencesIn(part: unknown, areNames = false): string[] {
  if (Array.isArray(part)) return part.flatMap((item) => referencesIn(item))
  if (typeof part !== 'object' || part === null) return []
  return Object.entries(part).flatMap(([key, value]) => {
    if (areNames) return referencesIn(value)
    if (key === '$ref' && typeof value === 'string' && value.startsWith('#/'))
      return [percentDecoded(value.slice(1)) ?? '']
    return DATA.has(key) || key.startsWith('x-') ? [] : referencesIn(value, NAMES.test(key))
  })
}

function schemaFixed(document: object, schema: Record<string, unknown>): Record<string, unknown> {
  if (typeof schema.$ref === 'string' && String(Object(document).openapi).startsWith('3.0'))
    for (const key of Object.keys(schema)) if (!BESIDE_REF.has(key)) delete schema[key]
  requireOfRequests(document, schema)
  // In YAML, values such as 1 and true are texts only in quotes, which authors forget.
  if (schema.type === 'string' && Array.isArray(schema.enum))
    schema.enum = schema.enum.map((one) => (typeof one === 'object' ? one : String(one)))
  if (schema.nullable === true) allowNull(schema)
  // The library refuses `nullable` without a type.
  delete schema.nullable
  if (schema.readOnly !== true) delete schema.readOnly
  for (const [bound, exclusive] of [
    ['minimum', 'exclusiveMinimum'],
    ['maximum', 'exclusiveMaximum'],
  ] as const) {
    if (typeof schema[exclusive] !== 'boolean') continue
    if (schema[exclusive] === true && schema[bound] !== undefined) {
      schema[exclusive] = schema[bound]
      delete schema[bound]
    } else delete schema[exclusive]
  }
  const steps = stepsOf(schema)
  if (steps > 0) schema[COUNTED] = steps
  return schema
}

/** Steps of a schema without those of the schemas in it. */
function stepsOf(schema: Record<string, unknown>): number {
  const lengthOf = (keyword: string) => (Array.isArray(schema[keyword]) ? schema[keyword].length : 0)
  const branches = lengthOf('allOf') + lengthOf('anyOf') + lengthOf('oneOf')
  const applied = Object.keys(schema).some((keyword) => APPLYING.test(keyword)) ? APPLIED_STEPS : 0
  const values = lengthOf('enum') > FEW_VALUES ? lengthOf('enum') * VALUE_STEPS : 0
  return applied * (1 + branches) + values
}

/** Removes `readOnly` properties from `required`, whichever schema of the value declares them. */
function requireOfRequests(document: object, schema: Record<string, unknown>): void {
  const branches = Array.isArray(schema.allOf) ? schema.allOf : []
  const places: Record<string, unknown>[] = [schema, ...branches.map(Object)]
  if (!places.some(({ required }) => Array.isArray(required))) return
  const names = new Set<string>()
  addReadOnlyNames(document, schema, names)
  for (const place of places) {
    const { required } = place
    if (Array.isArray(required)) place.required = [...new Set(required)].filter((name) => !names.has(name))
  }
}

function addReadOnlyNames(document: object, schema: unknown, names: Set<string>, depth = 0): void {
  const { properties, allOf, $ref } = Object(schema)
  for (const [name, property] of Object.entries(Object(properties) as object))
    if (isReadOnly(document, property)) names.add(name)
  if (depth === MAX_DEPTH) return
  for (const branch of Array.isArray(allOf) ? allOf : []) addReadOnlyNames(document, branch, names, depth + 1)
  if ($ref !== undefined) addReadOnlyNames(document, targetOf(document, schema), names, depth + 1)
}

function targetOf(document: object, schema: unknown): unknown {
  const found = followed(document, { value: schema, pointer: '' })
  return typeof found === 'string' ? undefined : found.value
}

/** Allows null, also beside `allOf` and the like, where authors write `nullable` although OpenAPI 3.0.3 ignores it. */
function allowNull(schema: Record<string, unknown>): void {
  const applied = BESIDE_NULL.filter((keyword) => Object.hasOwn(schema, keyword))
  if (applied.length > 0) {
    const branch: Record<string, unknown> = {}
    for (const keyword of [...applied, 'discriminator']) {
      if (Object.hasOwn(schema, keyword)) branch[keyword] = schema[keyword]
      delete schema[keyword]
    }
    schema.anyOf = [{ type: 'null' }, branch]
  }
  if (typeof schema.type === 'string') schema.type = [schema.type, 'null']
  if (Array.isArray(schema.enum) && !schema.enum.includes(null)) schema.enum = [...schema.enum, null]
}

function isReadOnly(document: object, property: unknown, depth = 0): boolean {
  const { readOnly, $ref, allOf } = Object(property)
  if (readOnly === true) return true
  if (depth === MAX_DEPTH) return false
  if ($ref !== undefined && isReadOnly(document, targetOf(document, property), depth + 1)) return true
  return Array.isArray(allOf) && allOf.some((branch) => isReadOnly(document, branch, depth + 1))
}
