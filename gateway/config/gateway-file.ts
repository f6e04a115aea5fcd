import schema from '../../config/schemas/gateway.schema.json' with { type: 'json' }
import { parametersOf } from '../edge/rules/path-template.ts'
import type { Parsed } from './faults.ts'
import { JsonFile, type Overrides } from './json/json-file.ts'
import { schemaCheck } from './json/schema-check.ts'
import type { WrittenGateway } from './keys/gateway-keys.ts'
import { type ReadFile, readText } from './load-file.ts'
import { type DocumentedRoutes, documentedRoutes } from './openapi/documented-routes.ts'
import { checkAudit } from './rules/audit-rules.ts'
import { decisionTerms, detailsTerms } from './rules/decision-rules.ts'
import { idempotencyTerms } from './rules/idempotency-rules.ts'
import { checkIssuers, checkTerms, issuerSettings, issuerTerms } from './rules/issuer-rules.ts'
import { methodSet } from './rules/method-rules.ts'
import { routePathFault } from './rules/path-rules.ts'
import { checkPolicies, filePolicy, routePolicy } from './rules/policy-rules.ts'
import { checkRows, operationRows } from './rules/row-rules.ts'
import { issuerFault, TEXT_RULES, tidyUpstream, upstreamFault } from './rules/value-rules.ts'
import { windowAtMost, windowToMs } from './rules/window-rule.ts'
import type { Route, Settings, StepUp } from './settings.ts'
import { checkGroups, checkTargets } from './upstreams/group-rules.ts'

/** The settings of config/gateway.json and its variables, with each default that depends on nothing else. */
export type GatewayFile = ReturnType<typeof gatewayFile>

/** A row of the file, or one made of an operation of `openapi`. */
type WrittenRoute = WrittenGateway['routes'][number] & Partial<Pick<Route, 'documentedAt' | 'laidAt'>>

const ROUTE_DEFAULTS = Object.fromEntries(
  Object.entries(schema.properties.routes.items.properties).flatMap(([key, property]) =>
    'default' in property ? [[key, property.default]] : [],
  ),
) as unknown as Pick<WrittenRoute, 'clientCert' | 'scopes' | 'mode'>

const checkSchema = schemaCheck(schema)
const NEVER = Number.POSITIVE_INFINITY
const windowFault = windowAtMost('24h')

/** @param readFile reads the OpenAPI document */
export function parseGatewayFile(
  file: string,
  text: string,
  readFile: ReadFile = readText,
  overrides?: Overrides,
): Parsed<GatewayFile> {
  const json = new JsonFile<WrittenGateway>(file, text, checkSchema, overrides && { overrides })
  const written = json.value
  if (written === undefined) return { faults: json.faults() }
  checkTexts(json, written)
  checkTerms(json, '$', written)
  checkIssuers(json, written.issuers)
  // These URLs, like an issuer, have no query, fragment or credentials.
  json.checkEach('$.dpop.publicUrls', written.dpop?.publicUrls, issuerFault)
  json.check('$.authThrottle.window', written.authThrottle?.window, windowFault)
  json.check('$.addressRate.window', written.addressRate?.window, windowFault)
  checkUpstreams(json, written)
  checkGroups(json, written)
  checkTimeouts(json, written)
  checkRoutes(json, written)
  checkPolicies(json, written)
  if (json.sound('$.audit')) checkAudit(json, written.audit)
  const isSound = json.faults().length === 0
  // A document has faults of its own, which need not wait until those of the file are mended.
  if (!json.sound('$.openapi') || !json.sound('$.routes')) return { faults: json.faults() }
  const documented = documentedRoutes(written.openapi, written.routes, readFile)
  if (isSound)
    for (const { at, reason } of documented.unfit) json.refuse({ path: `$.openapi.rows${at}`, reason })
  const faults = [...json.faults(), ...documented.faults]
  return faults.length > 0 ? { faults } : { value: gatewayFile(json, written, documented) }
}

function gatewayFile(json: JsonFile<unknown>, written: WrittenGateway, documented: DocumentedRoutes) {
  const {
    $schema: _,
    upstream,
    authThrottle,
    addressRate,
    maxBodyBytes: _maxBodyBytes,
    clockTolerance: _clockTolerance,
    introspection: _introspection,
    maintenance: _maintenance,
    responseHeaders: _responseHeaders,
    ...asWritten
  } = written
  const routes = routesOf(written, documented)
  const own: Pick<Settings, 'upstream' | 'issuers' | 'allowedFieldNames' | 'openapi' | 'routes'> = {
    upstream: [upstream].flat().map(tidyUpstream),
    issuers: written.issuers.map(issuerSettings),
    allowedFieldNames: new Set(written.allowedFieldNames.map((name) => name.toLowerCase())),
    openapi: documented.openapi,
    routes,
  }
  return {
    ...asWritten,
    ...issuerTerms(written),
    issuerIsDefault: !json.wrote('$.issuer'),
    ...filePolicy(written, routes),
    ...own,
    authThrottle: { failures: authThrottle.failures, windowMs: windowToMs(authThrottle.window) },
    addressRate: addressRate && { requests: addressRate.requests, windowMs: windowToMs(addressRate.window) },
    interactionId:
      written.interactionId ?? [written, ...written.issuers].some(({ profile }) => profile === 'fapi'),
  }
}

/** Makes the routes. All have their keys in one order, which makes look-ups for requests faster. */
function routesOf(written: WrittenGateway, documented: DocumentedRoutes): readonly Route[] {
  const described = documented.rows.map((row) => ({ ...ROUTE_DEFAULTS, ...row }) as WrittenRoute)
  return [...written.routes, ...described].map((route: WrittenRoute, index) => ({
    path: route.path,
    methods: methodSet(route.methods),
    auth: new Set(route.auth),
    scopes: scopeSets(route.scopes),
    stepUp: stepUpOf(route),
    authorizationDetails: route.authorizationDetails && detailsTerms(route.authorizationDetails),
    decision: route.decision && decisionTerms(route.decision, route.path),
    mask: maskOf(route),
    upstream: route.upstream,
    timeoutMs: route.timeoutMs ?? written.timeouts.totalMs,
    idleTimeoutMs: route.idleTimeoutMs ?? written.timeouts.bodyIdleMs,
    maxBodyBytes: route.maxBodyBytes ?? written.maxBodyBytes,
    clientCert: route.clientCert,
    trustIssuers: route.trustIssuers && new Set(route.trustIssuers),
    webhookClient: route.webhookClient,
    idempotency: route.idempotency && idempotencyTerms(route.idempotency),
    isSigned: route.signatures?.request !== undefined,
    signsResponses: route.signatures?.response === true,
    signsRequests: route.signatures?.upstream === true,
    ...routePolicy(route, written),
    operations: documented.operations[index],
    documentedAt: route.documentedAt,
    laidAt: route.laidAt,
  }))
}

/** Reads a list of scopes as one set, and a list of lists as several. */
function scopeSets(scopes: WrittenRoute['scopes']): Route['scopes'] {
  const sets = scopes.filter((one) => typeof one !== 'string')
  return sets.length > 0 || scopes.length === 0 ? sets : [scopes as readonly string[]]
}

/** The parameters of the row's path that `mask` names. A `mask` of `openapi.rows` may name those of other paths too. */
function maskOf({ path, mask }: WrittenRoute): readonly string[] | undefined {
  const masked = parametersOf(path).flatMap(({ name }) => (mask?.includes(name) === true ? [name] : []))
  return masked.length > 0 ? masked : undefined
}

function stepUpOf({ acr, maxAuthAge }: WrittenRoute): StepUp | undefined {
  if (acr === undefined && maxAuthAge === undefined) return undefined
  return { acr, maxAgeMs: maxAuthAge === undefined ? undefined : windowToMs(maxAuthAge) }
}

function checkTexts(json: JsonFile<unknown>, written: WrittenGateway): void {
  for (const [key, faultOf] of Object.entries(TEXT_RULES)) {
    const value = written[key as keyof typeof TEXT_RULES]
    if (typeof value === 'object') json.checkEach(`$.${key}`, value, faultOf)
    else json.check(`$.${key}`, value, faultOf)
  }
}

function checkUpstreams(json: JsonFile<unknown>, { upstream }: WrittenGateway): void {
  if (typeof upstream === 'string') json.check('$.upstream', upstream, upstreamFault)
  else if (json.sound('$.upstream')) checkTargets(json, '$.upstream', upstream)
}

function checkTimeouts(json: JsonFile<unknown>, { timeouts }: WrittenGateway): void {
  if (!json.sound('$.timeouts')) return
  const { totalMs = NEVER, requestMs = NEVER, requestHeadersMs } = timeouts
  // A default may be longer than the total, but a written value that is longer is a mistake.
  for (const key of ['connectMs', 'headersMs', 'bodyIdleMs'] as const) {
    const path = `$.timeouts.${key}`
    if (timeouts[key] <= totalMs || !json.wrote(path)) continue
    json.refuse({ path, reason: `must not be longer than totalMs (${totalMs}), but is ${timeouts[key]}` })
  }
  if (requestHeadersMs > requestMs) {
    const reason = `must not be longer than requestMs (${requestMs}), but is ${requestHeadersMs}`
    json.refuse({ path: '$.timeouts.requestHeadersMs', reason })
  }
}

function checkRoutes(json: JsonFile<unknown>, { routes, openapi }: WrittenGateway): void {
  if (!Array.isArray(routes)) return
  if (routes.length === 0 && openapi === undefined) {
    const reason = json.wrote('$.routes') ? 'must not be empty' : 'is missing'
    json.refuse({ path: '$.routes', reason })
  }
  checkRows(json, '$.routes', routes, routePathFault)
  checkRows(json, '$.openapi.rows', operationRows(openapi), routePathFault)
  for (const [index, route] of routes.entries()) {
    const path = `$.routes[${index}].scopes`
    if (!json.sound(path) || !json.sound(`$.routes[${index}].auth`)) continue
    if (new Set(route.scopes.map(Array.isArray)).size > 1)
      json.refuse({ path, reason: 'must be a list of scopes, or a list of lists of scopes' })
    if (route.scopes.length === 0 || !route.auth.includes('none')) continue
    json.refuse({ path, reason: 'must not be asked for where "auth" has "none": anyone passes without them' })
  }
}
