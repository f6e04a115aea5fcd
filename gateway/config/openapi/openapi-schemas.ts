import { at } from './references.ts'

/** Their values are data, not schemas. */
const DATA: ReadonlySet<string> = new Set(['default', 'enum', 'const'])
/** Data that says nothing of requests. An `$id` in it, as some serializers write it, would be taken for the name of a schema. */
const LEFT_OUT: ReadonlySet<string> = new Set(['example', 'examples'])
/** Below them are names, of which one may be `example`. */
const NAMES: ReadonlySet<string> = new Set(
  ['properties', 'patternProperties', 'dependentSchemas', 'dependentRequired', '$defs', 'definitions'].concat(
    ['paths', 'schemas', 'parameters', 'requestBodies', 'pathItems'],
  ),
)

/** Keywords that apply further schemas: one that applies itself again does so by one of them. */
const APPLYING = [
  'properties',
  'patternProperties',
  'additionalProperties',
  'items',
  'prefixItems',
  'contains',
].concat([
  'allOf',
  'anyOf',
  'oneOf',
  'not',
  'if',
  'dependentSchemas',
  'unevaluatedProperties',
  'unevaluatedItems',
])

/**
 * A keyword of our own: each time such a schema is applied is counted. Alternatives that each apply themselves again double
 * the work at each level of a value, as those of a language of filters: sixty levels would take for ever.
 */
export const COUNTED = 'x-countersign-counted'

interface Schema {
  readonly properties?: Readonly<Record<string, unknown>>
  readonly required?: unknown
  readonly nullable?: unknown
  readonly type?: unknown
  readonly enum?: unknown
}

/**
 * A document with its schemas as JSON Schema 2020-12, for requests: `nullable` and the exclusive bounds of OpenAPI 3.0 are
 * written as that has them, no property is required that only responses have (`readOnly`), and examples are left out.
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
    !areNames && DATA.has(key) ? part : converted(document, part, !areNames && NAMES.has(key)),
  ])
  const copy: Record<string, unknown> = Object.fromEntries(parts)
  return areNames ? copy : schemaFixed(document, copy)
}

function schemaFixed(document: object, schema: Record<string, unknown>): Record<string, unknown> {
  if (schema.nullable === true) allowNull(schema)
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
  if (APPLYING.some((keyword) => Object.hasOwn(schema, keyword))) schema[COUNTED] = true
  const { required, properties }: Schema = schema
  if (Array.isArray(required) && typeof properties === 'object' && properties !== null) {
    schema.required = required.filter((name) => !isReadOnly(document, properties[String(name)]))
  }
  return schema
}

function allowNull(schema: Record<string, unknown>): void {
  if (typeof schema.type === 'string') schema.type = [schema.type, 'null']
  if (Array.isArray(schema.enum) && !schema.enum.includes(null)) schema.enum = [...schema.enum, null]
}

function isReadOnly(document: object, property: unknown): boolean {
  const { readOnly, $ref } = Object(property)
  if (readOnly === true) return true
  const target = typeof $ref === 'string' && $ref.startsWith('#/') ? at(document, $ref.slice(1)) : undefined
  return Object(target).readOnly === true
}
