import { isParameter, segmentsOf } from '../http/rules/path-template.ts'

/** A row of `routes`, as it is written. */
export interface RouteRow {
  readonly path: string
  readonly methods?: readonly string[]
  readonly auth: readonly string[]
  readonly scopes?: readonly string[]
}

/** What a document says of one path and method. */
interface Demand {
  /** Empty: anyone. */
  readonly auth: readonly string[]
  readonly scopes: readonly string[]
}

const ANYONE: Demand = { auth: [], scopes: [] }
/** Keys of a path item that are methods (OpenAPI 3.1 section 4.8.9.1); TRACE is never let through. */
const METHODS = ['get', 'put', 'post', 'delete', 'options', 'patch']

type Json = Readonly<Record<string, unknown>>

/**
 * The routes of an OpenAPI document (3.0, 3.1; 2.0 has what is needed in the same places): a row for each path; one with a
 * parameter in a part of a segment, such as `/files/{name}.pdf`, as the prefix `/files/*`; its security as `auth` and `scopes`. What the gateway cannot check itself is left to the service.
 *
 * @returns notes: sentences on what a reader should know
 * @throws Error when it is no such document, or demands what no row can
 */
export function routesOf(document: unknown): {
  readonly routes: readonly RouteRow[]
  readonly notes: readonly string[]
} {
  if (!isObject(document) || !isObject(document.paths))
    throw new Error('is no OpenAPI document: it has no "paths"')
  const notes = new Set<string>()
  const base = basePath(document)
  const demands = new Map<string, { readonly path: string; readonly atPath: Map<string, Demand> }>()
  for (const [template, item] of Object.entries(document.paths)) {
    if (!template.startsWith('/') || !isObject(item)) continue
    const path = rowPath(base + template)
    if (path.endsWith('/*')) notes.add(`${template} became ${path}: everything below it is let through`)
    // What a parameter is called makes no difference.
    const shape = path.replaceAll(/\{[^}]*\}/g, '{}')
    const { atPath } = demands.get(shape) ?? { atPath: new Map<string, Demand>() }
    for (const method of METHODS) {
      const operation = item[method]
      if (!isObject(operation)) continue
      const demand = demandOf(document, operation.security ?? document.security, notes)
      const name = method.toUpperCase()
      atPath.set(name, bothOf(atPath.get(name), demand, `${name} ${path}`))
    }
    demands.set(shape, { path: demands.get(shape)?.path ?? path, atPath })
  }
  const routes = [...demands.values()].flatMap(({ path, atPath }) => rowsOf(path, atPath))
  if (routes.length === 0) throw new Error('has no path with a method')
  if (routes.some(({ auth }) => auth.includes('bearer')))
    notes.add('tokens need "issuer", "audience" and "jwksUri" in gateway.json')
  if (routes.some(({ auth }) => auth.includes('mtls')))
    notes.add('client certificates need "tls" with "clientCaFile", and clients.json')
  notes.add(
    'what the document does not name gets 404: add rows for WebSockets, pages of documentation and the like',
  )
  return { routes, notes: [...notes] }
}

/** Of several operations that became one row: what all of them demand. @throws Error when no caller could give it */
function bothOf(one: Demand | undefined, other: Demand, row: string): Demand {
  if (one === undefined) return other
  if (one.auth.length === 0 || other.auth.length === 0) return one.auth.length === 0 ? other : one
  const auth = one.auth.filter((kind) => other.auth.includes(kind))
  if (auth.length === 0)
    throw new Error(`has several operations for ${row}, whose callers have no credential in common`)
  return { auth, scopes: [...new Set([...one.scopes, ...other.scopes])] }
}

/** The path of the first server, which all paths begin with. */
function basePath({ basePath: base, servers }: Json): string {
  const first = Array.isArray(servers) && isObject(servers[0]) ? servers[0].url : base
  if (typeof first !== 'string' || first.includes('{')) return ''
  const { pathname } = new URL(first, 'http://service')
  return pathname.replace(/\/$/, '')
}

function rowPath(template: string): string {
  const brace = template.indexOf('{')
  const isWhole = segmentsOf(template).every((segment) => !segment.includes('{') || isParameter(segment))
  return isWhole ? template : `${template.slice(0, template.lastIndexOf('/', brace))}/*`
}

/** Methods that demand the same share a row. */
function rowsOf(path: string, atPath: ReadonlyMap<string, Demand>): RouteRow[] {
  const groups = Map.groupBy(atPath, ([, demand]) => JSON.stringify(demand))
  return [...groups.values()].map((group) => {
    const [, demand] = group[0] as [string, Demand]
    const { auth, scopes } = demand
    const methods = group.map(([method]) => method)
    if (auth.length === 0) return { path, methods, auth: ['none'] }
    return { path, methods, auth, ...(scopes.length > 0 && { scopes }) }
  })
}

/** @param security alternatives, each of which names the schemes that it needs together */
function demandOf(document: Json, security: unknown, notes: Set<string>): Demand {
  if (!Array.isArray(security) || security.length === 0) return ANYONE
  const alternatives = security.map((alternative) =>
    Object.entries(isObject(alternative) ? alternative : {}).flatMap(([name, scopes]) => {
      const auth = authOf(document, name)
      if (auth === undefined)
        notes.add(`the security scheme "${name}" is left to the service: the gateway does not know it`)
      return auth === undefined ? [] : [{ auth, scopes: Array.isArray(scopes) ? scopes.map(String) : [] }]
    }),
  )
  if (alternatives.some((schemes) => schemes.length === 0)) return ANYONE
  const [first = [], ...rest] = alternatives.map((schemes) => schemes.flatMap(({ scopes }) => scopes))
  return {
    // A row accepts one of several credentials, not several together.
    auth: [...new Set(alternatives.map((schemes) => schemes[0]?.auth ?? 'none'))],
    scopes: first.filter((scope) => rest.every((other) => other.includes(scope))),
  }
}

/** How the gateway itself checks a scheme (OpenAPI 3.1 section 4.8.27); undefined: not at all. */
function authOf({ components, securityDefinitions }: Json, name: string): string | undefined {
  const schemes = isObject(components) ? components.securitySchemes : securityDefinitions
  const scheme = isObject(schemes) ? schemes[name] : undefined
  if (!isObject(scheme)) return undefined
  if (scheme.type === 'mutualTLS') return 'mtls'
  const isBearer = scheme.type === 'http' && String(scheme.scheme).toLowerCase() === 'bearer'
  return isBearer || scheme.type === 'oauth2' || scheme.type === 'openIdConnect' ? 'bearer' : undefined
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
