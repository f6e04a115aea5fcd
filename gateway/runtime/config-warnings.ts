import { existsSync, readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { ClientTable } from '../config/clients/clients-file.ts'
import { configFiles, type Environment } from '../config/environment.ts'
import { outOfTime } from '../config/rules/certificate-times.ts'
import { issuerWarnings } from '../config/rules/issuer-rules.ts'
import { methodsMeet } from '../config/rules/method-rules.ts'
import { foldPath } from '../config/rules/path-rules.ts'
import type { Route, Settings } from '../config/settings.ts'
import { groupWarnings } from '../config/upstreams/group-rules.ts'
import { upstreamCertificates } from '../config/upstreams/upstream-tls-files.ts'
import { isTemplate, parametersOf, partsOf, patternsMeet, segmentsOf } from '../edge/rules/path-template.ts'
import { patternOf, type Rewrite } from '../edge/rules/policy/sending-policy.ts'
import { type LimitRow, nameOf } from '../limits/table/limit-table.ts'
import { plural } from '../terminal/printable.ts'
import { JWKS_PATH } from './upstream-parts.ts'

/** Further warnings and names are only counted, because a table can have thousands of rows. */
const MAX_WARNINGS = 20
/** Bounds the comparisons, so that an edit does not hold requests up. */
const MAX_PAIRS = 100_000
const KEYED_METHODS = new Set(['POST', 'PATCH', 'PUT', 'DELETE'])
export const NOTHING_LIMITED = 'the limit table is empty: nothing is limited'

export function limitWarnings(routes: readonly Route[], rows: readonly LimitRow[]): readonly string[] {
  return rows.length === 0 ? [NOTHING_LIMITED] : idleRowWarnings(routes, rows)
}

export function idleRowWarnings(routes: readonly Route[], rows: readonly LimitRow[]): readonly string[] {
  if (rows.length * routes.length > MAX_PAIRS)
    return [
      `${rows.length} limits and ${routes.length} routes are too many to tell which limits have no effect`,
    ]
  const folded = routes.map(({ path, methods }) => ({ path: foldedPattern(path), methods }))
  const idle = rows.filter((row) => {
    const path = foldedPattern(row.path)
    return !folded.some((route) => methodsMeet(route.methods, row.methods) && patternsMeet(route.path, path))
  })
  const warnings = idle
    .slice(0, MAX_WARNINGS)
    .map(
      (row) => `the limit "${nameOf(row)}" (${row.path}) has no effect: no route lets such a request through`,
    )
  const more = idle.length - warnings.length
  return more > 0
    ? [...warnings, `${plural(more, 'more limit')} without effect for the same reason`]
    : warnings
}

/** Folds letter case and closing slashes, which limits ignore. */
function foldedPattern(path: string): string {
  const folded = foldPath(path)
  return folded.endsWith('/') || folded.endsWith('/*') ? folded : `${folded}/`
}

export function clientWarnings(
  routes: readonly Pick<Route, 'webhookClient'>[],
  clients: ClientTable['rows'],
): readonly string[] {
  const byRow = new Set(routes.map(({ webhookClient }) => webhookClient))
  const lost = clients.filter(
    ({ id, hmac }) => hmac !== undefined && hmac.keyId === undefined && !byRow.has(id),
  )
  return named(lost.map(({ id }) => JSON.stringify(id))).map(
    (names) =>
      `webhooks of some clients are always refused, because "hmac" has no "keyId" and no row names the client by "webhookClient": ${names}`,
  )
}

/** Finds what is valid but probably a mistake, or easily forgotten. */
export function settingsWarnings(
  settings: Parameters<typeof issuerWarnings>[0] &
    Pick<Settings, 'upstreams' | 'openapi'> &
    Partial<Pick<Settings, 'store'>>,
): readonly string[] {
  const { routes, upstreams, openapi, store } = settings
  const alone = routes.filter(({ idempotency }) => store && idempotency?.onStoreFailure === 'local')
  const safe = routes.filter(
    ({ idempotency, methods }) => idempotency && !methodsMeet(methods, KEYED_METHODS),
  )
  const signing = routes.filter(({ signsResponses, signsRequests }) => signsResponses || signsRequests)
  const shadow = named(pathsOf(routes.filter(({ isShadow }) => isShadow)))
  const closed = named(pathsOf(routes.filter(({ screening }) => screening?.maintenance !== undefined)))
  return [
    ...issuerWarnings(settings),
    ...groupWarnings(upstreams, routes),
    ...shadow.map((names) => `rows in shadow mode, which refuse no caller: ${names}`),
    ...(openapi?.skippedPatterns ?? []).map((why) => `${openapi?.file}: ${why}; it is not checked`),
    ...closed.map((names) => `closed for maintenance: ${names}`),
    ...named(pathsOf(alone)).map(
      (names) =>
        `rows on which two gateways may both send the same request while the store is away, because "idempotency.onStoreFailure" is "local": ${names}`,
    ),
    ...named(pathsOf(safe)).map(
      (names) =>
        `rows whose "idempotency" has no effect, because no method of theirs changes anything: ${names}`,
    ),
    ...rewriteWarnings(routes),
    ...maskWarnings(routes),
    ...(routes.some(({ path }) => path === JWKS_PATH) ? [] : named(pathsOf(signing))).map(
      (names) =>
        `rows sign with a key that nobody can fetch, because no row for ${JWKS_PATH} publishes it: ${names}`,
    ),
  ]
}

function maskWarnings(routes: readonly Route[]): readonly string[] {
  const masked = routes.flatMap(({ path, mask }) =>
    mask === undefined
      ? []
      : [{ path, places: parametersOf(path).filter(({ name }) => mask.includes(name)) }],
  )
  if (masked.length * routes.length > MAX_PAIRS) return []
  return routes.flatMap((row) => {
    const shown = masked.filter(({ path, places }) => places.some(({ at }) => shows(row, path, at)))
    const names = [...new Set(shown.map(({ path }) => path))]
    return named(names).map(
      (list) =>
        `${row.path} does not mask what ${list} ${names.length === 1 ? 'masks' : 'mask'}: audit trail, spans and log show such values in its paths`,
    )
  })
}

/** True when a path of the row can match the template up to segment `at`, and the row does not mask that segment. */
function shows({ path, mask }: Route, template: string, at: number): boolean {
  const segment = segmentsOf(path)[at] ?? '*'
  const isOpen =
    segment === '*' ||
    (isTemplate(segment) && !partsOf(segment).names.some((name) => mask?.includes(name) === true))
  const begin = (of: string) =>
    `/${segmentsOf(of)
      .slice(0, at + 1)
      .join('/')}`
  return isOpen && patternsMeet(begin(path), begin(template))
}

function rewriteWarnings(routes: readonly Route[]): readonly string[] {
  const rewritten = routes.filter(({ sending }) => sending?.rewrite !== undefined)
  if (rewritten.length * routes.length > MAX_PAIRS) return []
  const callers = new Map(
    routes.map((row) => [row, JSON.stringify([[...row.auth].sort(), row.scopes])] as const),
  )
  return rewritten.flatMap((row) => {
    const path = patternOf(row.sending?.rewrite as Rewrite)
    const other = routes.find(
      (one) =>
        one.upstream === row.upstream &&
        callers.get(one) !== callers.get(row) &&
        patternsMeet(one.path, path) &&
        // Rows that overlap anyway are left out: the more specific one applies.
        !patternsMeet(one.path, row.path),
    )
    return other === undefined
      ? []
      : [
          `${row.path} is sent on as ${path}, so its callers reach what ${other.path} serves to other callers: give both rows the same "auth" and "scopes", or rewrite to another path`,
        ]
  })
}

export function certificateWarnings(settings: Settings): readonly string[] {
  return outOfTime(upstreamCertificates(settings), Date.now()).map(({ path, reason }) => `${path}: ${reason}`)
}

/**
 * @param file holds `1` if Linux moves the unaccepted connections of a closing socket to another socket on its port
 * (Linux 5.14)
 */
export function reusePortWarnings(
  { reusePort }: Pick<Settings, 'reusePort'>,
  file = '/proc/sys/net/ipv4/tcp_migrate_req',
): readonly string[] {
  if (!reusePort || (existsSync(file) && readFileSync(file, 'utf8').trim() === '1')) return []
  return [
    'when a gateway on this port ends, Linux resets the connections that this gateway has not accepted yet: sysctl net.ipv4.tcp_migrate_req=1 (Linux 5.14) gives them to another gateway',
  ]
}

function named(names: readonly string[]): readonly string[] {
  if (names.length === 0) return []
  const more = names.length - MAX_WARNINGS
  return [`${names.slice(0, MAX_WARNINGS).join(', ')}${more > 0 ? ` and ${more} more` : ''}`]
}

function pathsOf(routes: readonly Route[]): readonly string[] {
  return routes.map(({ path }) => path)
}

export function fileWarnings(env: Environment): readonly string[] {
  const { configFile, limitsFile } = configFiles(env)
  const ownFolder = dirname(resolve(configFile)) === dirname(resolve(limitsFile))
  if (env.GATEWAY_LIMITS !== undefined || ownFolder) return []
  return [
    `GATEWAY_CONFIG is ${configFile} and GATEWAY_LIMITS is not set: the limits of ${limitsFile} are in force, and these are for the demonstration unless you changed them`,
  ]
}
