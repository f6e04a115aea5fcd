import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DatabaseUnavailableError } from '../database/database.ts'
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
