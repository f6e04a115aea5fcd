import { Ajv2020, type ErrorObject, type Options, type ValidateFunction } from 'ajv/dist/2020.js'
import formatsModule from 'ajv-formats'
import type { FastifyInstance, FastifySchemaCompiler } from 'fastify'
import { type FieldFault, invalidField } from './problems.ts'

const OPTIONS = {
  allErrors: true,
  // An error then contains its schema, whose description says what was wanted.
  verbose: true,
  strict: true,
  strictTypes: false,
  strictRequired: false,
  // Validation would take a tenth of the time of a start; a test does it.
  validateSchema: false,
  // Our keyword: the field to name when a choice between fields fails.
  keywords: ['choiceOf'],
} satisfies Options

// The types of ajv-formats describe its CommonJS shape.
const addFormats = formatsModule as unknown as typeof formatsModule.default

const exact = new Ajv2020(OPTIONS)
const fromText = new Ajv2020({ ...OPTIONS, coerceTypes: true, useDefaults: true })
addFormats(exact)
addFormats(fromText)

/**
 * Compiles a schema of a route when it is first needed: all of them would take a tenth of the time of a start. In a
 * body, no type is coerced and no unknown field is dropped. In a query and a path, numbers are parsed.
 */
export const compileSchema: FastifySchemaCompiler<unknown> = ({ schema, httpPart }) => {
  const ajv = httpPart === 'body' ? exact : fromText
  let compiled: ValidateFunction | undefined
  const validate: ReturnType<FastifySchemaCompiler<unknown>> = (data) => {
    compiled ??= ajv.compile(schema as object)
    const isValid = compiled(data)
    validate.errors = compiled.errors as never
    return isValid
  }
  return validate
}

/** The bounds of a response, however many faults a request has. */
const MAX_FAULTS = 20
const MAX_FIELD_CHARACTERS = 100

export function fieldFaults(errors: readonly ErrorObject[]): FieldFault[] {
  const faults = new Map<string, FieldFault>()
  for (const error of errors) {
    if (isOfBranch(error) || followsFromOther(error, errors)) continue
    const fault = { field: shortened(fieldName(error)), reason: reason(error) }
    if (!faults.has(fault.field)) faults.set(fault.field, fault)
    if (faults.size === MAX_FAULTS) break
  }
  return [...faults.values()]
}

/** True for the fault of one branch of a choice. Only the fault of the choice itself is reported. */
function isOfBranch({ schemaPath }: ErrorObject): boolean {
  return /\/(oneOf|anyOf)\/\d+\//.test(schemaPath)
}

/** True for a fault that only repeats others: a failed `if`, or a failed `anyOf` with a fault inside its value. */
function followsFromOther(
  { keyword, instancePath, parentSchema }: ErrorObject,
  errors: readonly ErrorObject[],
): boolean {
  if (keyword === 'if') return true
  if (keyword !== 'anyOf' || parentSchema?.choiceOf !== undefined) return false
  return errors.some((other) => !isOfBranch(other) && other.instancePath.startsWith(`${instancePath}/`))
}

function shortened(name: string): string {
  return name.length <= MAX_FIELD_CHARACTERS ? name : `${name.slice(0, MAX_FIELD_CHARACTERS - 1)}…`
}

function fieldName(error: ErrorObject): string {
  const path = error.instancePath
    .slice(1)
    .replace(/\/(\d+)/g, '[$1]')
    .replaceAll('/', '.')
  const member = error.params.missingProperty ?? error.params.additionalProperty
  if (member !== undefined) return path === '' ? member : `${path}.${member}`
  if (error.keyword === 'oneOf' || error.keyword === 'anyOf') return error.parentSchema?.choiceOf ?? path
  return path === '' ? 'body' : path
}

function reason(error: ErrorObject): string {
  switch (error.keyword) {
    case 'required':
      return 'is required'
    case 'additionalProperties':
      return 'is not a field of this request'
    case 'enum':
    case 'pattern':
    case 'oneOf':
    case 'anyOf':
      return `must be ${error.parentSchema?.description ?? 'of another form'}`
    default:
      return error.message ?? 'is not valid'
  }
}

/** Matches a bracket, or a string in JSON. A member's name is matched with its colon. */
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|[{}[\]]/g

/**
 * Reads JSON bodies as fastify does, but refuses two members of one name, because `JSON.parse` takes the last one, and
 * another program may take the first (RFC 8259 section 4).
 */
export function readJsonBodies(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser<string>('application/json', { parseAs: 'string' }, (request, text, done) => {
    parse(request, text, (fault, body) => {
      const repeated = fault === null ? repeatedMember(text) : undefined
      if (repeated === undefined) done(fault, body)
      else done(invalidField(shortened(repeated), 'is given more than once'))
    })
  })
}

/** Returns the name of a member that one object in valid JSON has twice. */
function repeatedMember(text: string): string | undefined {
  const names: Set<string>[] = []
  for (const [token, string, colon] of text.matchAll(TOKEN)) {
    if (token === '{' || token === '[') names.push(new Set())
    else if (string === undefined) names.pop()
    else if (colon !== undefined) {
      // Escapes may spell one name in several ways.
      const name = JSON.parse(string) as string
      if (names.at(-1)?.has(name)) return name
      names.at(-1)?.add(name)
    }
  }
  return undefined
}
