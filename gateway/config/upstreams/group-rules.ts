import { isIP } from 'node:net'
import type { JsonFile } from '../json/json-file.ts'
import { childPath } from '../json/json-path.ts'
import { describeValue } from '../json/schema-check.ts'
import type { WrittenGateway } from '../keys/gateway-keys.ts'
import { pathFault } from '../rules/path-rules.ts'
import { writtenRows } from '../rules/row-rules.ts'
import { hostFault, tidyUpstream, upstreamFault, versionFault } from '../rules/value-rules.ts'
import type { Settings } from '../settings.ts'
import { DEFAULT_GROUP, type UpstreamGroup } from './upstream-group.ts'

type WrittenGroup = WrittenGateway['upstreams'][string]
type Written = Pick<WrittenGateway, 'upstreams' | 'routes' | 'openapi'>

const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/
const MAX_GROUPS = 256

/** Reports every fault of the named groups, and every route that names none of them. */
export function checkGroups(json: JsonFile<unknown>, written: Written): void {
  const { upstreams } = written
  if (typeof upstreams !== 'object' || upstreams === null || Array.isArray(upstreams)) return
  const names = Object.keys(upstreams)
  if (names.length > MAX_GROUPS) {
    json.refuse({
      path: '$.upstreams',
      reason: `must have at most ${MAX_GROUPS} groups, but has ${names.length}`,
    })
    return
  }
  for (const [name, group] of Object.entries(upstreams)) {
    const path = childPath('$.upstreams', name)
    if (!json.sound(path)) continue
    if (!NAME.test(name)) {
      json.refuse({ path, reason: 'must have a name of at most 64 letters, digits, - and _, a letter first' })
    }
    checkTargets(json, path, { name, group })
    checkHealthCheck(json, `${path}.healthCheck`, group.healthCheck)
    checkBreaker(json, `${path}.breaker`, group.breaker)
    checkTls(json, `${path}.tls`, group.tls)
  }
  checkNames(json, written, new Set([...names, DEFAULT_GROUP]))
}

/** The groups that routes name. The targets of the default group are those of `upstream`. */
export function groupsInUse({
  upstream,
  upstreams,
  routes,
}: Pick<Settings, 'upstream' | 'upstreams' | 'routes'>): readonly UpstreamGroup[] {
  const groups = {
    ...upstreams,
    [DEFAULT_GROUP]: { ...(upstreams[DEFAULT_GROUP] ?? { slowStartMs: 0 }), targets: upstream },
  }
  const used = new Set(routes.map((route) => route.upstream))
  return Object.entries(groups).flatMap(([name, { targets = [], ...policy }]) =>
    used.has(name) ? [{ ...policy, name, targets: targets.map(tidyUpstream) }] : [],
  )
}

/** One sentence for each group that no route names. */
export function groupWarnings(
  upstreams: Settings['upstreams'],
  routes: Settings['routes'],
): readonly string[] {
  const used = new Set(routes.map(({ upstream }) => upstream))
  return Object.keys(upstreams)
    .filter((name) => !used.has(name))
    .map((name) => `the upstream group "${name}" has no effect: no route names it`)
}

function checkTargets(
  json: JsonFile<unknown>,
  path: string,
  { name, group: { targets } }: { readonly name: string; readonly group: WrittenGroup },
): void {
  if (name === DEFAULT_GROUP) {
    if (targets === undefined) return
    const reason = 'must not be given: the targets of the group "default" are those of "upstream"'
    json.refuse({ path: `${path}.targets`, reason })
  } else if (targets === undefined) json.refuse({ path: `${path}.targets`, reason: 'is missing' })
  else {
    const tidy = targets.map(tidyUpstream)
    json.checkEach(
      `${path}.targets`,
      tidy,
      (one, index) =>
        upstreamFault(one) ??
        versionFault(one, tidy[0]) ??
        (tidy.indexOf(one) < index ? `must not be "${one}" a second time` : undefined),
    )
  }
}

function checkHealthCheck(json: JsonFile<unknown>, path: string, check: WrittenGroup['healthCheck']): void {
  if (check === undefined) return
  json.check(`${path}.path`, check.path, checkPathFault)
  json.check(`${path}.host`, check.host, authorityFault)
}

function checkBreaker(json: JsonFile<unknown>, path: string, breaker: WrittenGroup['breaker']): void {
  if (breaker === undefined || breaker.failures > 0 || breaker.failurePercent !== undefined) return
  json.refuse({ path, reason: 'never opens: give "failures" above 0, or "failurePercent"' })
}

function checkNames(json: JsonFile<unknown>, written: Written, names: ReadonlySet<string>): void {
  for (const { at, row } of writtenRows(written)) {
    json.check(`${at}.upstream`, row.upstream, (name: string) =>
      names.has(name)
        ? undefined
        : `must name a group of "upstreams" or be "${DEFAULT_GROUP}", but is ${describeValue(name)}`,
    )
  }
}

/** A path without a query, in the form in which paths are compared. */
function checkPathFault(path: string): string | undefined {
  if (path.endsWith('*')) return `must be one path, but is ${describeValue(path)}`
  return pathFault(path)
}

function authorityFault(host: string): string | undefined {
  const [, name = '', port = '1'] = /^(\[[0-9A-Fa-f:.]+\]|[^:]*)(?::([0-9]{1,5}))?$/.exec(host) ?? []
  const bare = name.startsWith('[') ? name.slice(1, -1) : name
  if (hostFault(bare) === undefined && Number(port) >= 1 && Number(port) <= 65535) return undefined
  return `must be a host name or an address, with or without a port, but is ${describeValue(host)}`
}

function checkTls(json: JsonFile<unknown>, path: string, tls: WrittenGroup['tls']): void {
  if (tls === undefined) return
  json.check(`${path}.serverName`, tls.serverName, (name) =>
    isIP(name) === 0
      ? hostFault(name)
      : 'must be a name: an address cannot be asked for (RFC 6066 section 3)',
  )
  if (tls.minVersion > tls.maxVersion) {
    json.refuse({ path: `${path}.minVersion`, reason: `must not be above maxVersion, ${tls.maxVersion}` })
  }
}
