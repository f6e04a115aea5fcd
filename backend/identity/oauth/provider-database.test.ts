import assert from 'node:assert/strict'
import { it } from 'node:test'
import {
  type Database,
  DatabaseBusyError,
  DatabaseUnavailableError,
  OutcomeUnknownError,
} from '../../database/database.ts'
import { providerDatabase } from './provider-database.ts'

it('tells the provider of a database that is away or too busy, and leaves every other fault as it is', async () => {
  const failing = (fault: Error) =>
    providerDatabase({ query: () => Promise.reject(fault) } as unknown as Database).query('SELECT 1')
  for (const fault of [new DatabaseBusyError('busy'), new DatabaseUnavailableError(new Error('away'))]) {
    await assert.rejects(failing(fault), { error: 'temporarily_unavailable', status: 503, cause: fault })
  }
  const other = new Error('another fault')
  await assert.rejects(failing(other), other)
})

it('does not promise that nothing changed when the response to COMMIT was lost', async () => {
  const fault = new OutcomeUnknownError(new Error('away'))
  const database = { transaction: () => Promise.reject(fault) } as unknown as Database
  const lost = providerDatabase(database).transaction(async () => {})
  await assert.rejects(lost, { error: 'server_error', status: 500, cause: fault })
})

it('repeats a statement that met a deadlock', async () => {
  const answers = [
    Promise.reject(Object.assign(new Error('deadlock'), { code: '40P01' })),
    Promise.resolve([]),
  ]
  const database = { query: () => answers.shift() } as unknown as Database
  assert.deepEqual(await providerDatabase(database).query('SELECT 1'), [])
})
