import { readFileSync } from 'node:fs'
import { REMOVED_HEADERS } from '../../edge/rules/field-rules.ts'
import { type Declaration, RESTART } from './schema-text.ts'

/* Makes docs/reference/keys.md from config/schemas, for `npm run schemas`. Not part of the gateway. */

const FILES = ['gateway', 'limits', 'clients']
const INTRODUCTION = `# Configuration reference

\`npm run schemas\` writes this page from [config/schemas/](../../config/schemas). [configuration.md](../operate/configuration.md) says what the keys are for.

The brackets after a key have its type (\`[string]\` is a list of strings), \`required\` or the default, \`restart\` if an edit takes effect only at a restart,
and the environment variable that overrides the key (a list is separated by commas). A missing key without a default has no effect, unless its text says
otherwise. A row is an entry of \`routes\`; "top-level" means directly in gateway.json. Durations look like "30s", "5m", "24h" or "7d".
`
const EMPTY: ReadonlySet<string> = new Set(['', '`{}`', '`[]`'])
/** Examples that the reference omits: durations, single words and lists of methods. */
const PLAIN = /^`(?:"(?:\d+[smhd]|[a-z][a-z0-9_-]*)"|\["[A-Z",]+"\])`$/
const VARIABLE = / Environment: (\w+)(?:, separated by commas)?\./

export function referenceText(): string {
  return [INTRODUCTION, ...FILES.map(chapterOf), removedHeaders()].join('\n')
}

function removedHeaders(): string {
  const rows = REMOVED_HEADERS.map(({ names, what, kept, logged }) => {
    const list = names.map((name) => (name.includes(' ') ? name : `\`${name}\``)).join(' ')
    return `| ${what} | ${list} | ${kept} | ${logged ? 'yes' : 'no'} |\n`
  })
  return `## Request headers that are removed

The service gets a request without these headers. The log has a line, \`a request header is removed\`, when a route first removes a name,
and again after an edit of gateway.json. \`X-HTTP-Method-Override\`, \`X-HTTP-Method\` and \`X-Method-Override\` are not removed: a request with one of them gets 400
\`method_override\`, unless \`requestHeaders.allow\` of the row names it.

| what the header says | headers | passed on to the service | removal logged |
| --- | --- | --- | --- |
${rows.join('')}`
}

function chapterOf(name: string): string {
  const file = new URL(`../../../config/schemas/${name}.schema.json`, import.meta.url)
  const root: Declaration = JSON.parse(readFileSync(file, 'utf8'))
  const tables = new Map<string, Declaration>()
  collect(root, '', tables)
  const shown = new Map<string, string>()
  const explained = new Map<string, string>()
  const parts = [...tables].map(([path, schema]) => {
    const keys = JSON.stringify(schema.properties)
    const twin = shown.get(keys)
    if (twin !== undefined) return `\n### \`${path}\`\n\nIt has the keys of \`${twin}\`.\n`
    shown.set(keys, path)
    return listOf(path, schema, explained)
  })
  return `## ${name}.json\n\n${root.description ?? ''}\n${parts.join('')}`
}

/** The keys of this object are those of `routes[]`. */
const EXPLAINED_ELSEWHERE = 'openapi.rows[]'

/** Finds every object with keys of its own, in the order of the file. */
function collect(schema: Declaration, path: string, tables: Map<string, Declaration>): void {
  if (path === EXPLAINED_ELSEWHERE) return
  const { properties = {}, items, additionalProperties: values } = schema
  if (schema.properties !== undefined) tables.set(path, schema)
  for (const [key, value] of Object.entries(properties)) collect(value, join(path, key), tables)
  if (items !== undefined) collect(items, `${path}[]`, tables)
  if (typeof values === 'object') collect(values, join(path, '<name>'), tables)
}

function join(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`
}

/** @param explained lines already written, with the object that each was first written for */
function listOf(
  path: string,
  { properties = {}, required = [] }: Declaration,
  explained: Map<string, string>,
): string {
  const twins = new Map<string, string[]>()
  const keys = Object.entries(properties).flatMap(([key, schema]) => {
    const preset = EMPTY.has(codeOf(schema.default)) ? '' : `, default ${codeOf(schema.default)}`
    const kind = shapeOf(schema) + (required.includes(key) ? ', required' : preset)
    const text = textOf(key, schema)
    const [, variable] = VARIABLE.exec(text) ?? []
    const marks = [kind, text.includes(RESTART) && 'restart', variable].filter(Boolean).join(', ')
    const line = `- \`${key}\` (${marks}): ${text.replace(RESTART, '').replace(VARIABLE, '')}\n`
    const first = explained.get(line)
    if (first === undefined) explained.set(line, path === '' ? 'the top level' : `\`${path}\``)
    else twins.set(first, [...(twins.get(first) ?? []), `\`${key}\``])
    return first === undefined ? line : []
  })
  const heading = path === '' ? '' : `\n### \`${path}\`\n`
  const others = [...twins].map(([first, names]) => `${names.join(', ')}: as in ${first}.\n`)
  return [heading, ...[keys.join(''), ...others].filter(Boolean)].join('\n')
}

function shapeOf(schema: Declaration): string {
  if (schema.enum !== undefined) return schema.enum.map(codeOf).join(' ')
  return [schema.type ?? 'object']
    .flat()
    .map((type) => namedType(schema, type))
    .join(' or ')
}

function namedType(schema: Declaration, type: string): string {
  if (type === 'array') return `[${shapeOf(schema.items ?? {})}]`
  return type === 'integer' || type === 'number' ? type + boundsOf(schema) : type
}

function boundsOf({ minimum, maximum }: Declaration): string {
  const [from, to] = [minimum ?? 0, maximum].map((bound) => bound?.toLocaleString('en'))
  if (to !== undefined) return ` ${from}–${to}`
  return minimum === undefined ? '' : ` from ${from}`
}

function textOf(key: string, schema: Declaration): string {
  const { description = '', properties, items, additionalProperties: values } = schema
  const example = codeOf(schema.examples?.[0])
  const parts = properties ?? items?.properties ?? (typeof values === 'object' && values.properties)
  const isBelow = parts && /^`[{[]/.test(example)
  const isTold =
    PLAIN.test(example) ||
    schema.enum !== undefined ||
    example === codeOf(schema.default) ||
    /File$|^\$/.test(key)
  return isBelow || isTold || /^(?:$|`(?:\d|true|false))/.test(example)
    ? description
    : `${description} Example: ${example}`
}

function codeOf(value: unknown): string {
  return value === undefined ? '' : `\`${JSON.stringify(value)}\``
}
