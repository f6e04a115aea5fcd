import type { Environment } from '../environment.ts'
import type { Database } from './database.ts'
import { openPglite } from './pglite.ts'
import { openPostgres } from './postgres.ts'

/** Throws what {@link openPglite} and {@link openPostgres} throw. */
export function openDatabase(
  { databaseUrl, dataDirectory }: Pick<Environment, 'databaseUrl' | 'dataDirectory'>,
  onIdleFault: (fault: Error) => void,
): Promise<Database> {
  if (databaseUrl === undefined) return openPglite(dataDirectory)
  return openPostgres({ url: databaseUrl, onIdleFault })
}
