import { issuerWarnings } from '../../config/rules/issuer-rules.ts'
import type { Route, Settings } from '../../config/settings.ts'
import { groupsInUse } from '../../config/upstreams/group-rules.ts'
import { foldedName } from '../../edge/rules/field-rules.ts'
import { PathTable } from '../../edge/rules/path-table.ts'
import { rewrittenPath, type SendingPolicy } from '../../edge/rules/policy/sending-policy.ts'
import type { ServedRoute } from '../../exchange.ts'
import { LimitTable, nameOf, rowsOf } from '../../limits/table/limit-table.ts'
import { METHOD_UNKNOWN } from '../../stages/admit.ts'
import { type RoutedExchange, route } from '../../stages/route.ts'
import { CONFIG_FLAGS, type Command, environmentOf, JSON_FLAG } from '../command.ts'
import { type Cells, methodsOf, readRequest, readTables, tell, whyNot } from './row-reasons.ts'

/** The routing stage needs rows with a client; this one sends nothing. */
const NOTHING_SENT: ServedRoute['client'] = {
  speaksHttp2: false,
  send: () => {
    throw new Error('nothing is sent')
  },
}

export const command: Command = {
  words: 'METHOD PATH',
  flags: { ...CONFIG_FLAGS, ...JSON_FLAG },
  about: [
    'Says which row of gateway.json, or operation of its OpenAPI document, applies to a request with this method and path, what the row demands, where the request goes, and why similar rows do not apply. It reads the files here, and needs no running gateway.',
    'The row with the most specific path applies. An exact path comes first, then the template (such as /users/{id}) or prefix with more text before its first { or *. On a tie the template applies.',
  ],
  examples: [
    ['countersign explain route GET /api/balance', 'which row, and what it demands'],
    ['countersign explain route DELETE /api/login', 'refused: no row of this path is for DELETE'],
  ],
  fault: 'the gateway would refuse the request, or its configuration is faulty',
  run({ words, flags }) {
    const { settings, limits } = readTables(environmentOf(flags))
    const { method, path } = readRequest(words, settings)
    const routes = settings.routes.map((row, index) => ({
      ...row,
      client: NOTHING_SENT,
      permits: undefined,
      maskPath: undefined,
      jwks: undefined,
      signedTarget: undefined,
      number: index + 1,
    }))
    const exchange: RoutedExchange = {
      path,
      method,
      route: undefined,
      headers: { contentLength: undefined, oddNames: undefined },
      req: { fields: [], target: path },
    }
    const limiter = new LimitTable(limits.rows, limits.plans)
    const table = new PathTable(routes)
    const refused = table.knows(method)
      ? route({ settings, limiter, routes: table }, exchange)
      : METHOD_UNKNOWN
    const served = exchange.route
    const winner = routes.find((row) => row === served)
    const why = refused === undefined ? 'by no row' : `${refused.status} ${refused.code}: ${refused.detail}`
    const found = limiter.find(path, method)
    const names = found && rowsOf(found).map(nameOf).join(', ')
    const limit = names === undefined ? 'none' : `${names}: countersign explain limit ${method} ${path}`
    const { near, others } = whyNot(routes, winner, { path, method, folded: false })
    const place = (row: (typeof routes)[number]) => ({ place: placeOf(row, settings), path: row.path })
    const rows = (winner === undefined ? [] : [winner]).map((row) => ({
      ...place(row),
      cells: [...describeRoute(row, settings, path), ['limit', limit]] as Cells,
      warnings: issuerWarnings({ ...settings, routes: [row] }),
    }))
    const nearby = near.map(([row, cause]) => ({ ...place(row), methods: methodsOf(row), why: cause }))
    return tell({ method, path, rows, otherwise: `refused, ${why}`, near: nearby, others }, flags)
  },
}

function placeOf({ number, documentedAt }: Route & { readonly number: number }, settings: Settings): string {
  return documentedAt === undefined
    ? `row ${number} of ${settings.configFile}`
    : `the operation ${documentedAt}`
}

function issuersOf({ issuer, audience, issuers }: Settings): string {
  return [{ issuer, audience }, ...issuers]
    .map((one) => `${one.issuer} for ${[one.audience].flat().join(' or ')}`)
    .join(', ')
}

function sentOf(sending: SendingPolicy | undefined, path: string): Cells {
  if (sending === undefined) return []
  const { rewrite, isRaw, host, namesTarget, allowed, removed, added } = sending
  const set = new Set(added.map(({ lower }) => foldedName(lower)))
  return [
    ['path', rewrite === undefined ? isRaw && 'as the client writes it' : rewrittenPath(rewrite, path)],
    ['Host', namesTarget ? 'that of the upstream' : host],
    ['lets pass', [...allowed].join(', ')],
    ['sets', added.map(({ name, value }) => `${name}: ${value}`).join(', ')],
    ['removes', [...removed].filter((name) => !set.has(name)).join(', ')],
  ]
}

function describeRoute(row: Route, settings: Settings, path: string): Cells {
  const group = groupsInUse(settings).find(({ name }) => name === row.upstream)
  const seconds = (ms: number | undefined) => (ms === undefined ? 'any time' : `${ms / 1000} s`)
  return [
    ['methods', methodsOf(row)],
    ['who', row.auth.has('none') ? 'anyone' : `by ${[...row.auth].join(' or ')}`],
    ['signed', row.isSigned && 'by the client that the credential names'],
    [
      'signs',
      [row.signsResponses && 'its responses', row.signsRequests && 'its requests to the service']
        .filter(Boolean)
        .join(', '),
    ],
    ['tokens', row.auth.has('bearer') && `of ${issuersOf(settings)}`],
    ['scopes', row.scopes.map((set) => set.join(' and ')).join(', or ') || 'none needed'],
    ['step-up', row.stepUp && stepUpOf(row.stepUp)],
    [
      'approved',
      row.authorizationDetails && `by authorization_details of the type ${row.authorizationDetails.type}`,
    ],
    ['decision', row.decision && `by ${row.decision.url}, within ${row.decision.timeoutMs} ms`],
    ['body', `at most ${row.maxBodyBytes} bytes`],
    ['time', `${seconds(row.timeoutMs)}, of which at most ${seconds(row.idleTimeoutMs)} in silence`],
    ['upstream', group?.targets.join(', ') ?? row.upstream],
    ['masked', row.mask && `${row.mask.join(', ')}, in the audit trail, the log and the console`],
    ...sentOf(row.sending, path),
    ['closed', row.screening?.maintenance && 'for maintenance, now'],
    ['shadow', row.isShadow && 'requests that would be refused are counted and let through'],
  ]
}

function stepUpOf({ acr, maxAgeMs }: NonNullable<Route['stepUp']>): string {
  const way = acr && `authenticated by ${acr.join(' or ')}`
  const age = maxAgeMs === undefined ? undefined : `authenticated at most ${maxAgeMs / 1000} s ago`
  return [way, age].filter((one) => one !== undefined).join(', ')
}
