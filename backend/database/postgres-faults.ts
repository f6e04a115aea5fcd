import { DatabaseError } from 'pg'
import { DatabaseBusyError, DatabaseUnavailableError } from './database.ts'

/**
 * SQLSTATEs of a server that cannot work now: connection exceptions, no resources (disk, memory, connections), stopping or
 * starting, a system error, a standby that accepts no writes.
 */
const UNAVAILABLE = /^(?:08|53|57P|58)|^25006$/
const STATEMENT_TIMEOUT = '57014'
/** The pool's message when no connection became free in time. It has no code. */
const POOL_IS_FULL = 'timeout exceeded when trying to connect'

/** Classifies an error of the driver for callers. An error of the statement itself stays as it is. */
export function postgresFault(fault: unknown): unknown {
  if (fault instanceof DatabaseError) {
    if (UNAVAILABLE.test(fault.code ?? '')) return new DatabaseUnavailableError(fault)
    if (fault.code === STATEMENT_TIMEOUT)
      return new DatabaseBusyError('a statement took too long', { cause: fault })
    return fault
  }
  // Values that cannot be sent are our own mistake.
  if (fault instanceof TypeError || fault instanceof RangeError) return fault
  if (fault instanceof Error && fault.message === POOL_IS_FULL)
    return new DatabaseBusyError('every connection is in use', { cause: fault })
  // No response of the server: a socket failed or a timeout passed. Or the pool was closed, by a stop.
  return new DatabaseUnavailableError(fault)
}
