import type { Database } from '../../database/database.ts'
import { DatabaseBusyError, DatabaseUnavailableError, retrySerialization } from '../../database/database.ts'
import { errors, Provider } from './library.ts'

/** After how many seconds a client should try again. */
export const RETRY_AFTER = '1'

/**
 * The database for oidc-provider, which turns unknown errors into `server_error` with 500. So a database that is away or
 * too busy is reported to it as `temporarily_unavailable` (RFC 6749 section 4.1.2.1), with 503 and Retry-After.
 */
export function providerDatabase(database: Database): Database {
  return {
    // One statement that deletes a grant can meet a transaction that locks rows of it in another order (40P01).
    query: (sql, values) =>
      retrySerialization(() => database.query<never>(sql, values)).catch(toProviderFault),
    transaction: (work, options) => database.transaction(work, options).catch(toProviderFault),
    probe: () => database.probe(),
    close: () => database.close(),
  }
}

function toProviderFault(fault: unknown): never {
  const isBusy = fault instanceof DatabaseBusyError
  if (!isBusy && !(fault instanceof DatabaseUnavailableError)) throw fault
  Provider.ctx?.set('retry-after', RETRY_AFTER)
  const unavailable = new errors.OIDCProviderError(503, 'temporarily_unavailable', { cause: fault })
  unavailable.error_description = isBusy
    ? 'There is too much to do at this moment. Try again.'
    : 'The database cannot be reached at this moment. Try again later.'
  // Its message may go out, as that of a fault of the request may.
  unavailable.expose = true
  throw unavailable
}
