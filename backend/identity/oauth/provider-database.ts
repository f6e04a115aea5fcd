import { AsyncLocalStorage } from 'node:async_hooks'
import type { KoaContextWithOIDC } from 'oidc-provider'
import {
  type Database,
  DatabaseBusyError,
  DatabaseUnavailableError,
  OutcomeUnknownError,
  type Queryable,
  retrySerialization,
} from '../../database/database.ts'
import { errors, Provider } from './library.ts'

const RETRY_AFTER = '1'

/**
 * Wraps the database: while it is away or busy, requests get `temporarily_unavailable` (RFC 6749 section 4.1.2.1), and
 * `server_error` when it is unknown whether they took effect.
 */
export function providerDatabase(database: Database): Database {
  return {
    ...database,
    // The deletion of a grant can meet a transaction that locks the same rows in another order (40P01).
    query: (sql, values) =>
      retrySerialization(() => database.query<never>(sql, values)).catch(toProviderFault),
    transaction: (work, options) => database.transaction(work, options).catch(toProviderFault),
  }
}

function toProviderFault(fault: unknown): never {
  if (fault instanceof OutcomeUnknownError) throw unknownOutcome(fault)
  const isBusy = fault instanceof DatabaseBusyError
  if (!isBusy && !(fault instanceof DatabaseUnavailableError)) throw fault
  Provider.ctx?.set('retry-after', RETRY_AFTER)
  const unavailable = new errors.OIDCProviderError(503, 'temporarily_unavailable', { cause: fault })
  unavailable.error_description = isBusy
    ? 'There is too much to do at this moment. Try again.'
    : 'The database cannot be reached at this moment. Try again later.'
  unavailable.expose = true
  throw unavailable
}

/** A 500, because after a 503 a client may send the request again, and its code or token may be used up by now. */
function unknownOutcome(cause: OutcomeUnknownError): Error {
  const unknown = new errors.OIDCProviderError(500, 'server_error', { cause })
  unknown.error_description =
    'The database went away before it confirmed this request: it is unknown whether it took effect.'
  unknown.expose = true
  return unknown
}

type Change = (database: Queryable) => Promise<void>

/** `issued`: stored if the request got its tokens. `answered`: stored also if it was refused, but not if it failed. */
type Condition = 'issued' | 'answered'

class RequestChanges {
  readonly changes: { readonly condition: Condition; readonly change: Change }[] = []
  readonly afterwards: (() => void)[] = []
}

const underWay = new AsyncLocalStorage<RequestChanges>()

/** Makes a change at the end of a request that {@link storeTogether} handles, else at once. */
export async function changeAtEnd(database: Queryable, condition: Condition, change: Change): Promise<void> {
  const request = underWay.getStore()
  if (request === undefined) await change(database)
  else request.changes.push({ condition, change })
}

export function whenStored(act: () => void): void {
  const request = underWay.getStore()
  if (request === undefined) act()
  else request.afterwards.push(act)
}

/** A code or refresh token that another request has used. */
export class UsedTwice extends errors.InvalidGrant {
  readonly grantId: string | null

  constructor(grantId: string | null) {
    super('used already')
    this.grantId = grantId
  }
}

/**
 * Stores the changes of a request to one of `paths` in one transaction, before the response. oidc-provider alone would
 * store them one by one, and a client that repeats a half-stored request (503) would look like a thief.
 *
 * @param options.endGrant ends a grant whose code or token was used twice at the same time
 */
export function storeTogether(
  provider: Provider,
  options: {
    readonly database: Database
    readonly paths: readonly string[]
    readonly endGrant: (ctx: KoaContextWithOIDC, grantId: string) => Promise<void>
  },
): void {
  const { database, paths, endGrant } = options
  provider.use(async (ctx: KoaContextWithOIDC, next) => {
    if (!paths.includes(ctx.path)) return next()
    const request = new RequestChanges()
    await underWay.run(request, next)
    const settle = (status: number) => store(request, { database, status })
    try {
      await settle(ctx.status).catch(async (fault) => {
        if (fault instanceof UsedTwice && fault.grantId !== null) await endGrant(ctx, fault.grantId)
        // The request's proof counts as used although the request is refused. The failed transaction did not store that.
        if (fault instanceof errors.InvalidGrant) await settle(fault.statusCode)
        throw fault
      })
    } catch (fault) {
      refuse(ctx, fault)
      if (ctx.status >= 500 && !(fault instanceof errors.OIDCProviderError))
        provider.emit('server_error', ctx, fault as Error)
    }
  })
}

async function store(
  { changes, afterwards }: RequestChanges,
  { database, status }: { readonly database: Database; readonly status: number },
): Promise<void> {
  if (status >= 500) return
  const due = changes.filter(({ condition }) => status === 200 || condition === 'answered')
  if (due.length > 0)
    await database.transaction(async (transaction) => {
      // This level is enough: each change checks the row it locks. SERIALIZABLE would abort one of two requests under one grant.
      await transaction.query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED')
      for (const { change } of due) await change(transaction)
    })
  for (const act of afterwards) act()
}

/** Responds as the library does at its own failure. */
function refuse(ctx: KoaContextWithOIDC, fault: unknown): void {
  const isKnown = fault instanceof errors.OIDCProviderError
  ctx.status = isKnown ? fault.statusCode : 500
  if (ctx.status === 503) ctx.set('retry-after', RETRY_AFTER)
  ctx.body = isKnown
    ? { error: fault.error, error_description: fault.error_description }
    : { error: 'server_error', error_description: 'oops! something went wrong' }
}
