import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DatabaseBusyError, DatabaseUnavailableError } from '../database/database.ts'
import { whenAvailable } from './when-available.ts'

const away = () => new DatabaseUnavailableError(new Error('away'))

describe('whenAvailable', () => {
  it('tries again, later each time, and says so', async () => {
    const waits: number[] = []
    const paused: number[] = []
    let attempts = 0
    const done = whenAvailable(
      async () => {
        if (++attempts < 8) throw away()
        return 'there'
      },
      {
        onWait: (_fault, retryMs) => waits.push(retryMs),
        pause: async (ms) => void paused.push(ms),
        signal: new AbortController().signal,
      },
    )
    assert.equal(await done, 'there')
    assert.deepEqual(waits, [250, 500, 1000, 2000, 4000, 5000, 5000])
    assert.deepEqual(paused, waits)
  })

  it('waits for a database that is too busy too: another backend may be migrating it', async () => {
    const waits: string[] = []
    let attempts = 0
    const done = whenAvailable(
      async () => {
        if (++attempts < 3) throw new DatabaseBusyError('a statement took too long')
        return 'free'
      },
      {
        onWait: ({ message }) => waits.push(message),
        pause: async () => {},
        signal: new AbortController().signal,
      },
    )
    assert.equal(await done, 'free')
    assert.deepEqual(waits, Array(2).fill('a statement took too long'))
  })

  it('waits for nothing but the database', async () => {
    const fault = new Error('another fault')
    const waiting = { onWait: () => assert.fail(), signal: new AbortController().signal }
    await assert.rejects(
      whenAvailable(() => Promise.reject(fault), waiting),
      fault,
    )
  })

  it('ends when it is told to', async () => {
    const stop = new AbortController()
    const waiting = whenAvailable(() => Promise.reject(away()), {
      onWait: () => setImmediate(() => stop.abort()),
      signal: stop.signal,
    })
    await assert.rejects(waiting, DatabaseUnavailableError)
  })
})
