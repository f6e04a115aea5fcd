import { BlockList } from 'node:net'
import type { AddressList } from '../../edge/rules/client-address.ts'
import { ruleOf } from '../../edge/rules/field-rules.ts'
import { parametersOf } from '../../edge/rules/path-template.ts'
import { corsOf, originFault } from '../../edge/rules/policy/cors.ts'
import type { Leniency } from '../../edge/rules/policy/path-readings.ts'
import {
  forwardedPolicy,
  responseLines,
  SIGNED_RESPONSE_FIELDS,
} from '../../edge/rules/policy/response-policy.ts'
import { isText, isToken } from '../../edge/syntax/characters.ts'
import { UNREGISTERED_METHODS } from '../../edge/syntax/status-codes.ts'
import { refusal } from '../../refusals.ts'
import type { JsonFile } from '../json/json-file.ts'
import type { WrittenGateway, WrittenRoute } from '../keys/gateway-keys.ts'
import type { Maintenance, Route, Screening } from '../settings.ts'
import { checkDecision } from './decision-rules.ts'
import { checkIdempotency } from './idempotency-rules.ts'
import { methodFault, methodSet } from './method-rules.ts'
import { type AnyRow, writtenRows } from './row-rules.ts'
import { checkResponseFields, checkSending, lifecycleLines, sendingPolicy } from './sending-rules.ts'
import { addNetwork } from './value-rules.ts'

/** The keys that the file and its routes share. */
type WrittenPolicy = Pick<WrittenGateway, 'addresses' | 'maintenance' | 'responseHeaders'>
type Written = Pick<WrittenGateway, 'routes' | 'openapi'> & WrittenPolicy

/** The methods of a CORS route that names none. */
const COMMON_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']

export function checkPolicies(json: JsonFile<unknown>, written: Written): void {
  checkCommon(json, '$', written)
  for (const { at, row } of writtenRows(written)) {
    checkCommon(json, at, row)
    checkCors(json, at, row)
    checkSending(json, at, row)
    checkIdempotency(json, at, row)
    checkDecision(json, at, row)
    json.check(`${at}.mode`, row, shadowFault)
    // A mask of `openapi.rows` is compared with the paths of the document.
    if (json.sound(`${at}.path`) && !at.startsWith('$.openapi'))
      json.checkEach(`${at}.mask`, row.mask, (name) => maskFault(row.path, name))
  }
}

function maskFault(path: string, name: string): string | undefined {
  const names = parametersOf(path).map((one) => one.name)
  if (names.includes(name)) return undefined
  const present = names.length === 0 ? `none such as {${name}}` : names.map((one) => `{${one}}`).join(' ')
  return `must be a parameter of ${JSON.stringify(path)}, which has ${present}, but is ${JSON.stringify(name)}`
}

function checkCommon(json: JsonFile<unknown>, at: string, policy: WrittenPolicy): void {
  const { addresses, maintenance, responseHeaders } = policy
  json.checkEach(`${at}.addresses.allow`, addresses?.allow, networkFault)
  json.checkEach(`${at}.addresses.deny`, addresses?.deny, networkFault)
  json.checkEach(`${at}.maintenance.passes`, maintenance?.passes, networkFault)
  for (const key of ['contentSecurityPolicy', 'permissionsPolicy'] as const) {
    json.check(`${at}.responseHeaders.${key}`, responseHeaders?.[key], lineFault)
  }
  checkResponseFields(json, `${at}.responseHeaders`, responseHeaders)
}

function checkCors(json: JsonFile<unknown>, at: string, { cors, methods }: AnyRow): void {
  if (cors === undefined) return
  json.checkEach(`${at}.cors.origins`, cors.origins, originFault)
  json.check(`${at}.cors.credentials`, cors, ({ credentials, origins }) =>
    credentials && Array.isArray(origins) && origins.includes('*')
      ? 'must not be true where "origins" has "*": every page could act as its visitor'
      : undefined,
  )
  const passing = json.sound(`${at}.methods`) ? methodSet(methods) : undefined
  json.checkEach(`${at}.cors.methods`, cors.methods, (method) => {
    if (passing?.has(method) ?? !UNREGISTERED_METHODS.has(method)) return methodFault(method)
    return `must be one of the route's "methods", but is ${JSON.stringify(method)}`
  })
  json.checkEach(`${at}.cors.headers`, cors.headers, nameFault)
  json.checkEach(`${at}.cors.exposedHeaders`, cors.exposedHeaders, nameFault)
}

function shadowFault({ mode, auth }: Pick<AnyRow, 'mode'> & { readonly auth?: unknown }): string | undefined {
  if (mode !== 'shadow' || !Array.isArray(auth) || auth.some((kind) => kind !== 'none')) return undefined
  return 'must not be "shadow" where "auth" has only "none": nothing is decided there'
}

function networkFault(network: string): string | undefined {
  const list = new BlockList()
  const reason = addNetwork(list, network)
  if (reason !== undefined || !network.includes(':') || network.toLowerCase().includes('::ffff:'))
    return reason
  // An IPv4 address counts as the IPv6 address that it is mapped to.
  return list.check('0.0.0.1', 'ipv4')
    ? `must not be "${network}", which has every IPv4 address in it: write "2000::/3" for the IPv6 internet`
    : undefined
}

function lineFault(text: string): string | undefined {
  return isText(text) ? undefined : 'must be one line without control characters, in Latin-1'
}

function nameFault(name: string): string | undefined {
  if (name === '*')
    return 'must not be "*", which does not include Authorization in browsers: name the headers'
  return isToken(name) ? undefined : `must be the name of a header, but is ${JSON.stringify(name)}`
}

/** @param written without faults @param routes of the file and of its document */
export function filePolicy(written: WrittenGateway, routes: readonly Pick<Route, 'leniency'>[]) {
  return {
    trustedProxies: networks(written.trustedProxies),
    clientCertProxies: networks(written.clientCertProxies),
    addresses: addressList(written.addresses),
    leniency: leniencyOf(routes.flatMap(({ leniency }) => leniency ?? [])),
    responseLines: responseLines(written.responseHeaders ?? {}),
  }
}

/** @param file without faults; its maintenance and headers hold where the route has none of its own */
export function routePolicy(route: WrittenRoute, file: Written) {
  const headers = { ...file.responseHeaders, ...route.responseHeaders }
  const methods = route.cors?.methods ?? [...(methodSet(route.methods) ?? COMMON_METHODS)]
  const cors = route.cors && corsOf({ ...route.cors, methods })
  const lifecycle = lifecycleLines(route)
  const screening: Screening = {
    addresses: addressList(route.addresses),
    cors,
    maintenance: maintenanceOf(route.maintenance ?? file.maintenance),
  }
  return {
    screening: Object.values(screening).some((part) => part !== undefined) ? screening : undefined,
    isShadow: route.mode === 'shadow',
    leniency: leniencyOf([{ ...route, methodOverrides: overridesOf(route) }]),
    cors,
    sending: sendingPolicy(route),
    forwarded: forwardedPolicy(headers, cors !== undefined, [
      ...(lifecycle === '' ? [] : ['deprecation', 'sunset']),
      ...(route.signatures?.response === true ? SIGNED_RESPONSE_FIELDS : []),
    ]),
    responseLines: responseLines(headers) + lifecycle,
  }
}

function leniencyOf(all: readonly Leniency[]): Leniency | undefined {
  const leniency = {
    encodedSlashes: all.some((one) => one.encodedSlashes),
    pathParameters: all.some((one) => one.pathParameters),
    underscoreNames: all.some((one) => one.underscoreNames),
    rawPath: all.some((one) => one.rawPath),
    methodOverrides: new Set(all.flatMap((one) => [...one.methodOverrides])),
  }
  const isAny = Object.values(leniency).includes(true) || leniency.methodOverrides.size > 0
  return isAny ? leniency : undefined
}

function overridesOf({ requestHeaders }: WrittenRoute): ReadonlySet<string> {
  const allowed = (requestHeaders?.allow ?? []).map((name) => name.toLowerCase())
  return new Set(allowed.filter((name) => ruleOf(name).upstream === 'refused'))
}

function addressList(written: WrittenPolicy['addresses']): AddressList | undefined {
  return written && { allow: networks(written.allow), deny: networks(written.deny) }
}

function networks(written: readonly string[] | undefined): BlockList | undefined {
  if (written === undefined || written.length === 0) return undefined
  const list = new BlockList()
  for (const network of written) addNetwork(list, network)
  return list
}

function maintenanceOf(written: WrittenPolicy['maintenance']): Maintenance | undefined {
  return (
    written && {
      refusal: refusal('maintenance', {
        detail: written.purpose,
        headers: ['Retry-After', String(written.retryAfterSeconds)],
      }),
      passes: networks(written.passes),
    }
  )
}
