import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DatabaseError } from 'pg'
import { DatabaseBusyError, DatabaseUnavailableError } from './database.ts'
import { postgresFault } from './postgres.ts'

function fromServer(code: string): DatabaseError {
  return Object.assign(new DatabaseError('from the server', 0, 'error'), { code })
}

describe('postgresFault', () => {
  it('distinguishes a server that is away or cannot work from a wrong statement', () => {
    for (const code of ['08006', '57P01', '57P02', '57P03', '53100', '53300', '58030', '25006']) {
      assert.ok(postgresFault(fromServer(code)) instanceof DatabaseUnavailableError, code)
    }
    for (const code of ['23505', '40001', '42P01', '28P01', '3D000', '22012']) {
      const fault = fromServer(code)
      assert.equal(postgresFault(fault), fault, code)
    }
    assert.ok(postgresFault(fromServer('57014')) instanceof DatabaseBusyError)
  })

  it('takes a failed socket or a timeout for a server that is away, and names the cause', () => {
    const refused = Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' })
    const fault = postgresFault(refused)
    assert.ok(fault instanceof DatabaseUnavailableError)
    assert.equal(fault.message, 'the database cannot be reached: ECONNREFUSED')
    assert.ok(postgresFault(new Error('Query read timeout')) instanceof DatabaseUnavailableError)
    const full = new Error('timeout exceeded when trying to connect')
    assert.ok(postgresFault(full) instanceof DatabaseBusyError, 'no connection is free')
  })

  it('leaves faults of this program as they are', () => {
    const fault = new TypeError('of ours')
    assert.equal(postgresFault(fault), fault)
  })
})
