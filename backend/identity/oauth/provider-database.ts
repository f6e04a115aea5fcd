import type { Database } from '../../database/database.ts'
import { DatabaseUnavailableError } from '../../database/database.ts'
import { errors, Provider } from './library.ts'

/** Seconds until a client should come again. */
const RETRY_AFTER = '1'

/**
 * The database as oidc-provider should see it: what it does not know it turns into `server_error` with 500, so a database
 * that is away is told to it as `temporarily_unavailable` (RFC 6749 section 4.1.2.1), with 503 and Retry-After.
 */
export function providerDatabase(database: Database): Database {
  return {
    query: (sql, values) => database.query<never>(sql, values).catch(toProviderFault),
    transaction: (work) => database.transaction(work).catch(toProviderFault),
    close: () => database.close(),
  }
}

function toProviderFault(fault: unknown): never {
  if (!(fault instanceof DatabaseUnavailableError)) throw fault
  Provider.ctx?.set('retry-after', RETRY_AFTER)
  const unavailable = new errors.OIDCProviderError(503, 'temporarily_unavailable', { cause: fault })
  unavailable.error_description = 'The database cannot be reached at this moment. Try again later.'
  // Its message may go out, as that of a fault of the request may.
  unavailable.expose = true
  throw unavailable
}
