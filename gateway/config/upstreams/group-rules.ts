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

type Written = Pick<WrittenGateway, 'upstreams' | 'routes' | 'openapi'>

const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/

export function checkGroups(json: JsonFile<unknown>, written: Written): void {
  const { upstreams } = written
  if (typeof upstreams !== 'object' || upstreams === null || Array.isArray(upstreams)) return
  for (const [name, group] of Object.entries(upstreams)) {
    const path = childPath('$.upstreams', name)
    if (!json.sound(path)) continue
    if (!NAME.test(name)) {
      json.refuse({ path, reason: 'must have a name of at most 64 letters, digits, - and _, a letter first' })
    }
    checkGroupTargets(json, `${path}.targets`, name, group.targets)
    json.check(`${path}.healthCheck.path`, group.healthCheck?.path, checkPathFault)
    json.check(`${path}.healthCheck.host`, group.healthCheck?.host, authorityFault)
    json.check(`${path}.breaker`, group.breaker, ({ failures, failurePercent }) =>
      failures > 0 || failurePercent !== undefined
        ? undefined
        : 'never opens: give "failures" above 0, or "failurePercent"',
    )
    checkTls(json, `${path}.tls`, group.tls)
  }
  const names = new Set([...Object.keys(upstreams), DEFAULT_GROUP])
  for (const { at, row } of writtenRows(written)) {
    json.check(`${at}.upstream`, row.upstream, (name: string) =>
      names.has(name)
        ? undefined
        : `must name a group of "upstreams" or be "${DEFAULT_GROUP}", but is ${describeValue(name)}`,
    )
  }
}

/** The groups that routes name. The targets of the default group are those of `upstream`. */
export function groupsInUse({
  upstream,
  upstreams,
  routes,
}: Pick<Settings, 'upstream' | 'upstreams' | 'routes'>): readonly UpstreamGroup[] {
  const { [DEFAULT_GROUP]: policy = { slowStartMs: 0 }, ...others } = upstreams
  const groups = { [DEFAULT_GROUP]: { ...policy, targets: upstream }, ...others }
  const used = new Set(routes.map((route) => route.upstream))
  return Object.entries(groups).flatMap(([name, { targets = [], ...policy }]) =>
    used.has(name) ? [{ ...policy, name, targets: targets.map(tidyUpstream) }] : [],
  )
}

export function groupWarnings(
  upstreams: Settings['upstreams'],
  routes: Settings['routes'],
): readonly string[] {
  const used = new Set(routes.map(({ upstream }) => upstream))
  return Object.keys(upstreams)
    .filter((name) => !used.has(name))
    .map((name) => `the upstream group "${name}" has no effect: no route names it`)
}

function checkGroupTargets(
  json: JsonFile<unknown>,
  path: string,
  name: string,
  targets?: readonly string[],
): void {
  if (name !== DEFAULT_GROUP) {
    if (targets === undefined) json.refuse({ path, reason: 'is missing' })
    else checkTargets(json, path, targets)
  } else if (targets !== undefined) {
    const reason = 'must not be given: the targets of the group "default" are those of "upstream"'
    json.refuse({ path, reason })
  }
}

export function checkTargets(json: JsonFile<unknown>, path: string, targets: readonly string[]): void {
  const tidy = targets.map(tidyUpstream)
  json.checkEach(
    path,
    tidy,
    (one, index) =>
      upstreamFault(one) ??
      versionFault(one, tidy[0]) ??
      (tidy.indexOf(one) < index ? `must not be "${one}" a second time` : undefined),
  )
}

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

function checkTls(
  json: JsonFile<unknown>,
  path: string,
  tls: WrittenGateway['upstreams'][string]['tls'],
): void {
  if (tls === undefined) return
  json.check(`${path}.serverName`, tls.serverName, (name) =>
    isIP(name) === 0 ? hostFault(name) : 'must be a name: SNI allows no address (RFC 6066 section 3)',
  )
  if (tls.minVersion > tls.maxVersion) {
    json.refuse({ path: `${path}.minVersion`, reason: `must not be above maxVersion, ${tls.maxVersion}` })
  }
}
