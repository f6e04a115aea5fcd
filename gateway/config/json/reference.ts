import { readFileSync } from 'node:fs'
import { REMOVED_HEADERS } from '../../http/rules/field-rules.ts'

/* config/REFERENCE.md, made from config/schemas by `npm run schemas`. Not part of the gateway. */

/** What the schemas use of JSON Schema 2020-12, as far as the reference shows it. */
interface Schema {
  readonly title?: string
  readonly description?: string
  readonly type?: string | readonly string[]
  readonly $ref?: string
  readonly $defs?: Readonly<Record<string, Schema>>
  readonly properties?: Readonly<Record<string, Schema>>
  readonly patternProperties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: boolean | Schema
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly default?: unknown
  readonly examples?: readonly unknown[]
}

const FILES = ['gateway', 'limits', 'clients']
const INTRODUCTION = `# Configuration reference

Every key of the configuration files, made from [schemas/](schemas) by \`npm run schemas\`. Files are JSON; unknown keys are faults. An editor that
knows JSON Schema shows the same texts when the file names its schema in \`$schema\`. What the keys are good for, and how they go together:
[README.md](README.md).
`

/** The text of config/REFERENCE.md. */
export function referenceText(): string {
  return [INTRODUCTION, ...FILES.map(chapterOf), removedHeaders()].join('\n')
}

function removedHeaders(): string {
  const rows = REMOVED_HEADERS.map(({ names, what, kept, logged }) => {
    const list = names.map((name) => (name.includes(' ') ? name : `\`${name}\``)).join(' ')
    return `| ${what} | ${list} | ${kept} | ${logged ? 'yes' : 'no'} |\n`
  })
  return `## Request headers that are removed

The service gets a request without these. The first removal of each name by each route is a line of the log, \`a request header is
removed\`, with the route and the name, or that of its family (\`x-auth-*\`); an edit of gateway.json begins anew. \`X-HTTP-Method-Override\`,
\`X-HTTP-Method\` and \`X-Method-Override\` are not removed: such a request is refused with 400 \`method_override\`, because without them the
service would do something else than the caller asked for.

| says | header | kept | logged |
| --- | --- | --- | --- |
${rows.join('')}`
}

function chapterOf(name: string): string {
  const file = new URL(`../../../config/schemas/${name}.schema.json`, import.meta.url)
  const root: Schema = JSON.parse(readFileSync(file, 'utf8'))
  const tables = new Map<string, Schema>()
  collect(root, root, '', tables)
  const parts = [...tables].map(([path, schema]) => tableOf(root, path, schema))
  return `## ${name}.json\n\n${root.description ?? ''}\n${parts.join('')}`
}

/** Finds every object with keys of its own, in the order of the file. */
function collect(root: Schema, written: Schema, path: string, tables: Map<string, Schema>): void {
  const schema = resolve(root, written)
  if (schema.properties !== undefined) tables.set(path, schema)
  for (const [key, value] of Object.entries(schema.properties ?? {}))
    collect(root, value, join(path, key), tables)
  if (schema.items !== undefined) collect(root, schema.items, `${path}[]`, tables)
  for (const value of valuesOf(schema)) collect(root, value, join(path, '<name>'), tables)
  for (const choice of schema.anyOf ?? schema.oneOf ?? []) collect(root, choice, path, tables)
}

/** Schemas of the values of keys that the operator names. */
function valuesOf({ additionalProperties, patternProperties }: Schema): Schema[] {
  const additional = typeof additionalProperties === 'object' ? [additionalProperties] : []
  return [...additional, ...Object.values(patternProperties ?? {})]
}

function join(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`
}

function tableOf(root: Schema, path: string, { properties = {}, required = [] }: Schema): string {
  const rows = Object.entries(properties).map(([key, written]) => {
    const schema = resolve(root, written)
    const preset = required.includes(key) ? 'required' : codeOf(schema.default)
    return `| \`${key}\` | ${shapeOf(root, schema)} | ${preset} | ${textOf(schema)} |\n`
  })
  const heading = path === '' ? '' : `\n### \`${path}\`\n`
  return `${heading}\n| key | value | default | |\n| --- | --- | --- | --- |\n${rows.join('')}`
}

/** What stands beside a `$ref` takes precedence. */
function resolve(root: Schema, schema: Schema): Schema {
  if (schema.$ref === undefined) return schema
  const name = schema.$ref.replace('#/$defs/', '')
  const { $ref, ...beside } = schema
  return { ...resolve(root, root.$defs?.[name] ?? {}), ...beside }
}

function shapeOf(root: Schema, written: Schema): string {
  const schema = resolve(root, written)
  const choices = schema.anyOf ?? schema.oneOf
  if (schema.enum !== undefined) return schema.enum.map(codeOf).join(' ')
  if (schema.const !== undefined) return codeOf(schema.const)
  if (schema.type === undefined && choices !== undefined) {
    return [...new Set(choices.map((choice) => shapeOf(root, choice)))].join(' or ')
  }
  const types = typeof schema.type === 'string' ? [schema.type] : (schema.type ?? ['object'])
  return types.map((type) => namedType(root, schema, type)).join(' or ')
}

function namedType(root: Schema, schema: Schema, type: string): string {
  if (type === 'array') return listOf(root, schema)
  return type === 'integer' || type === 'number' ? type + boundsOf(schema) : type
}

function listOf(root: Schema, { items }: Schema): string {
  return items === undefined ? 'list' : `list of ${shapeOf(root, items)}`
}

function boundsOf({ minimum, maximum }: Schema): string {
  if (maximum !== undefined) return ` ${format(minimum ?? 0)} to ${format(maximum)}`
  return minimum === undefined ? '' : ` from ${format(minimum)}`
}

function format(value: number): string {
  return value.toLocaleString('en')
}

function textOf({ description = '', examples: [example] = [] }: Schema): string {
  const text = description.replaceAll('|', '\\|')
  return example === undefined ? text : `${text} Example: ${codeOf(example)}`
}

function codeOf(value: unknown): string {
  return value === undefined ? '' : `\`${JSON.stringify(value).replaceAll('|', '\\|')}\``
}
