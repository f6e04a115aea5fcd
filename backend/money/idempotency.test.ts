import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { onEachDatabase, onPostgres } from '../testing/databases.ts'
import { idempotencyKey, respondOnce } from './idempotency.ts'

const ANSWER = { status: 201, body: '{}' }
const request = (key: string) => ({ caller: 'alice', path: '/api/transfer', key, fingerprint: 'f' })

onEachDatabase('respondOnce', (database) => {
  it('refuses a key whose first request is still being worked on, and replays the response afterwards', async () => {
    const { promise: started, resolve: start } = Promise.withResolvers<void>()
    const { promise: finished, resolve: finish } = Promise.withResolvers<void>()
    const first = respondOnce(database(), request('slow'), {
      work: async () => {
        start()
        await finished
        return ANSWER
      },
    })
    await started
    const again = () => respondOnce(database(), request('slow'), { work: async () => assert.fail() })
    await assert.rejects(again(), { code: 'idempotency_key_in_flight' })
    finish()
    assert.deepEqual(await first, { response: ANSWER, replayed: false })
    assert.deepEqual(await again(), { response: ANSWER, replayed: true })
  })

  it('frees the key when the work throws', async () => {
    const crash = new Error('crash')
    const options = { work: () => Promise.reject(crash) }
    await assert.rejects(respondOnce(database(), request('crash'), options), crash)
    const retried = await respondOnce(database(), request('crash'), { work: async () => ANSWER })
    assert.equal(retried.replayed, false)
  })

  it('does not mix up keys whose parts, joined, give the same text', async () => {
    const parts = [
      ['a', 'b', 'c'],
      ['ab', '', 'c'],
      ['a', 'bc', ''],
    ] as const
    for (const [caller, path, key] of parts) {
      const options = { work: async () => ANSWER }
      const { replayed } = await respondOnce(database(), { caller, path, key, fingerprint: 'f' }, options)
      assert.equal(replayed, false)
    }
  })
})

onPostgres('respondOnce', (database) => {
  it('refuses a key that another process is working on', async () => {
    await database().transaction(async (transaction) => {
      const lock = 'SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS taken'
      assert.deepEqual(await transaction.query(lock, ['alice\n/api/transfer\nelsewhere']), [{ taken: true }])
      const options = { work: async () => assert.fail() }
      await assert.rejects(respondOnce(database(), request('elsewhere'), options), {
        code: 'idempotency_key_in_flight',
      })
    })
    const retried = await respondOnce(database(), request('elsewhere'), {
      work: async () => ANSWER,
    })
    assert.equal(retried.replayed, false)
  })
})

describe('idempotencyKey', () => {
  it('reads a quoted string with its escapes, or the plain key', () => {
    assert.equal(idempotencyKey(undefined), undefined)
    assert.equal(idempotencyKey('"a b\\"c\\\\d"'), 'a b"c\\d')
    assert.equal(idempotencyKey('plain-1'), 'plain-1')
  })
})
