import { hash } from 'node:crypto'
import type { Parsed } from '../faults.ts'
import { JsonFile } from '../json/json-file.ts'
import { pathOfPointer } from '../json/json-path.ts'
import { schemaCheck } from '../json/schema-check.ts'
import type { Written as Declared } from '../keys/key-types.ts'
import type { OPENAPI } from '../keys/route-keys.ts'
import { methodFault } from '../rules/method-rules.ts'
import { routePathFault } from '../rules/path-rules.ts'
import type { RouteAuth } from '../settings.ts'
import { asJsonSchemas } from './openapi-schemas.ts'
import { readYaml } from './read-yaml.ts'
import { childPointer, followed, type Located } from './references.ts'
import { type OperationSecurity, readSecurity, textOf } from './request-security.ts'

export type OpenApiFile = Declared<typeof OPENAPI>

export interface ApiOperation {
  /** With the base path; may be a template. */
  readonly path: string
  readonly method: string
  /** The end of its path after "#". No request has it, so one request may fit several operations. */
  readonly fragment: string | undefined
  /** Empty, as `scopes`, for an operation that is replaced, if no row could ask for its security. */
  readonly auth: readonly RouteAuth[]
  readonly scopes: readonly (readonly string[])[]
  readonly pointer: string
}

/** Tells whether a row of gateway.json replaces an operation. */
export type IsReplaced = (operation: Pick<ApiOperation, 'path' | 'method'>) => boolean

export interface ApiDescription {
  /** The document, with its schemas as JSON Schema 2020-12. */
  readonly document: object
  readonly hash: string
  readonly operations: readonly ApiOperation[]
}

/** HEAD comes first, because a row for GET covers HEAD too and the first row that covers a request counts. */
const METHODS = ['head', 'get', 'put', 'post', 'delete', 'options', 'patch', 'query'] as const
const anyObject = schemaCheck({ type: 'object' })
const MAX_OPERATIONS = 10_000

type Servers = readonly { readonly url?: unknown; readonly variables?: unknown }[]

interface Written {
  readonly openapi?: unknown
  readonly swagger?: unknown
  readonly servers?: Servers
  readonly paths?: Readonly<Record<string, unknown>>
  readonly security?: unknown
  readonly components?: { readonly securitySchemes?: Readonly<Record<string, unknown>> }
}

/** Reads a document without checking what it says. A file named .yaml or .yml is YAML, unless it begins with `{`. */
export function openApiFile(file: string, text: string): JsonFile<Written> {
  const isYaml = /\.ya?ml$/i.test(file) && !/^\s*\{/.test(text)
  return new JsonFile<Written>(file, text, anyObject, isYaml ? { read: readYaml } : {})
}

export function parseOpenApi(
  options: OpenApiFile,
  text: string,
  isReplaced: IsReplaced,
): Parsed<ApiDescription> {
  const { file } = options
  const json = openApiFile(file, text)
  const { value: document } = json
  const known = json.faults()
  if (document === undefined || known.length > 0) return { faults: known }
  const version = versionFault(document)
  if (version !== undefined) return { faults: [{ file, path: '$.openapi', reason: version }] }
  const reading = new Reading(options, document, isReplaced)
  const operations = reading.operations()
  for (const { pointer, reason } of reading.faults) json.refuse({ path: pathOfPointer(pointer), reason })
  const faults = json.faults()
  if (faults.length > 0) return { faults }
  return { value: { document: asJsonSchemas(document), hash: hash('sha256', text), operations } }
}

function versionFault({ openapi, swagger }: Written): string | undefined {
  if (typeof openapi === 'string' && /^3\.[0-2]\.\d+/.test(openapi)) return undefined
  const found = swagger === undefined ? JSON.stringify(openapi) : `that of Swagger ${textOf(swagger)}`
  return `must be a version 3.0, 3.1 or 3.2 of OpenAPI, but is ${found ?? 'missing'}`
}

class Reading {
  readonly faults: { readonly pointer: string; readonly reason: string }[] = []
  readonly #options: OpenApiFile
  readonly #document: Written
  readonly #isReplaced: IsReplaced

  constructor(options: OpenApiFile, document: Written, isReplaced: IsReplaced) {
    this.#options = options
    this.#document = document
    this.#isReplaced = isReplaced
  }

  operations(): ApiOperation[] {
    const operations: ApiOperation[] = []
    const base = this.#basePathOf(this.#document, '') ?? ''
    const paths = Object.entries(Object(this.#document.paths) as object)
    if (paths.length === 0) this.#refuse('/paths', 'must name a path: nothing would be let through')
    for (const [path, item] of paths) {
      if (path.startsWith('x-')) continue
      operations.push(...this.#operationsOf(base, path, item))
      if (operations.length > MAX_OPERATIONS) {
        this.#refuse('/paths', `must not have more than ${MAX_OPERATIONS} operations`)
        return operations
      }
    }
    return operations
  }

  #operationsOf(base: string, key: string, value: unknown): ApiOperation[] {
    const place = childPointer('/paths', key)
    const item = followed(this.#document, { value, pointer: place })
    if (typeof item === 'string') return this.#refuse(place, item)
    const methods = Object(item.value) as Readonly<Record<string, unknown>>
    const own = this.#basePathOf(methods, item.pointer) ?? base
    const [path = '', fragment] = key.split('#')
    const fault = pathFaultOf(path.startsWith('/') ? joined(own, path) : path)
    if (fault !== undefined) return this.#refuse(place, fault)
    return writtenOperations(item).flatMap(([method, written, pointer]) => {
      const operation = Object(written) as { security?: unknown; servers?: Servers }
      const full = joined(this.#basePathOf(operation, pointer) ?? own, path)
      const security = this.#securityOf(operation)
      const unread = typeof security === 'string' ? security : undefined
      const isReplaced = unread !== undefined && this.#isReplaced({ path: full, method })
      const reason = pathFaultOf(full) ?? methodFault(method) ?? (isReplaced ? undefined : unread)
      if (reason !== undefined) return this.#refuse(pointer, reason)
      const callers = isReplaced ? { auth: [], scopes: [] } : (security as OperationSecurity)
      return [{ path: full, method, fragment, ...callers, pointer }]
    })
  }

  #securityOf({ security }: { readonly security?: unknown }) {
    const asked = security ?? this.#document.security
    if (asked !== undefined) {
      const schemes = this.#document.components?.securitySchemes ?? {}
      return readSecurity(asked, { schemes, mapped: this.#options.schemes })
    }
    const { auth } = this.#options
    if (auth !== undefined) return { auth, scopes: [] }
    return 'does not say who may call it: give it or the document "security" ([] lets anyone call it), or set openapi.auth'
  }

  /** `basePath`, or the path of the first server of this part, with the defaults of its variables. */
  #basePathOf({ servers }: { readonly servers?: Servers }, pointer: string): string | undefined {
    const { basePath } = this.#options
    const { url: written, variables } = Object(servers?.[0])
    if (basePath !== undefined || typeof written !== 'string') return basePath
    const url = written.replaceAll(/\{([^{}]*)\}/g, (found, name) => {
      const value = Object.hasOwn(Object(variables), name) ? Object(variables[name]).default : undefined
      return typeof value === 'string' ? value : found
    })
    // What precedes the path need not be known: a port may be any number, and a host anything.
    const local = url.replace(/^(?:[^/?#]*:)?\/\/[^/?#]*/, 'http://service')
    const { pathname } = URL.parse(local, 'http://service/') ?? { pathname: undefined }
    if (pathname !== undefined && !local.includes('{')) return pathname
    this.#refuse(`${pointer}/servers/0/url`, 'has no path that can be read: set openapi.basePath')
    return undefined
  }

  #refuse(pointer: string, reason: string): [] {
    this.faults.push({ pointer, reason })
    return []
  }
}

function joined(base: string, path: string): string {
  return (base.endsWith('/') ? base.slice(0, -1) : base) + path
}

function writtenOperations({ value, pointer }: Located) {
  const item = Object(value)
  const named = METHODS.map((key) => [key.toUpperCase(), item[key], childPointer(pointer, key)] as const)
  const below = childPointer(pointer, 'additionalOperations')
  const more = Object.entries(Object(item.additionalOperations) as object)
  return [
    ...named.filter(([, operation]) => operation !== undefined),
    ...more.map(([key, operation]) => [key, operation, childPointer(below, key)] as const),
  ]
}

function pathFaultOf(path: string): string | undefined {
  const fault = routePathFault(path)
  return fault && `the path ${JSON.stringify(path)} ${fault}`
}
