import { DatabaseError } from 'pg'
import { DatabaseBusyError, DatabaseUnavailableError } from './database.ts'

/**
 * SQLSTATEs by which the server says that it cannot work now: connection exceptions, no resources (disk, memory,
 * connections), a stop or a start under way, a fault of the system, a standby that takes no writes.
 */
const UNAVAILABLE = /^(?:08|53|57P|58)|^25006$/
const STATEMENT_TIMEOUT = '57014'

/** What a call of the driver threw, as what callers tell apart. An error of the statement itself stays as it is. */
export function postgresFault(fault: unknown): unknown {
  if (fault instanceof DatabaseError) {
    if (UNAVAILABLE.test(fault.code ?? '')) return new DatabaseUnavailableError(fault)
    if (fault.code === STATEMENT_TIMEOUT)
      return new DatabaseBusyError('a statement took too long', { cause: fault })
    return fault
  }
  // The server said nothing: a socket failed or a time ran out. Values that cannot be sent are a fault of ours.
  if (fault instanceof TypeError || fault instanceof RangeError) return fault
  return new DatabaseUnavailableError(fault)
}
