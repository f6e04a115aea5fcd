import type { AuditLine } from './audit-line.ts'

/** What `audit find` looks for: all that is given must hold. */
export interface RecordFilter {
  /** Request id, of the client or of the gateway. */
  readonly request?: string | undefined
  readonly user?: string | undefined
  readonly client?: string | undefined
  /** A part of the path. */
  readonly path?: string | undefined
  /** `sessionId`: then only responses are found, as for a status. */
  readonly session?: string | undefined
  readonly status?: number | undefined
  /** What a call of gRPC came to. */
  readonly grpcStatus?: number | undefined
}

/** Tells whether a record fits all but session and statuses, which a request has not got yet. */
export function concerns({ request, user, client, path }: RecordFilter, record: AuditLine): boolean {
  return (
    (request === undefined || record.requestId === request || record.gatewayId === request) &&
    (user === undefined || record.userId === user) &&
    (client === undefined || record.clientId === client) &&
    (path === undefined || (typeof record.path === 'string' && record.path.includes(path)))
  )
}

export function matches(filter: RecordFilter, record: AuditLine): boolean {
  const { session, status, grpcStatus } = filter
  return (
    concerns(filter, record) &&
    (session === undefined || record.sessionId === session) &&
    (status === undefined || record.statusCode === status) &&
    (grpcStatus === undefined || record.grpcStatus === grpcStatus)
  )
}

/** Bytes that stand in every record that the filter concerns: most lines need not be looked at. */
export function needleOf({ request, user, client, path }: RecordFilter): string | undefined {
  if (request !== undefined) return JSON.stringify(request)
  if (user !== undefined) return `"userId":${JSON.stringify(user)}`
  if (client !== undefined) return `"clientId":${JSON.stringify(client)}`
  return path === undefined ? undefined : JSON.stringify(path).slice(1, -1)
}

/** Bytes that stand in every response that the filter matches, from what only responses have. */
export function responseNeedleOf({ session, status, grpcStatus }: RecordFilter): string | undefined {
  if (session !== undefined) return `"sessionId":${JSON.stringify(session)}`
  if (grpcStatus !== undefined) return `"grpcStatus":${grpcStatus}`
  return status === undefined ? undefined : `"statusCode":${status},`
}

const UUID_V7 = /^([\da-f]{8})-([\da-f]{4})-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/i

/** When an id was made that is a UUID of version 7 (RFC 9562), as the gateway makes them, milliseconds since the epoch. */
export function idTimeMs(id: string): number | undefined {
  const [, high, low] = UUID_V7.exec(id) ?? []
  return high === undefined || low === undefined ? undefined : Number.parseInt(high + low, 16)
}
