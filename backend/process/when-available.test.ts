import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { DatabaseBusyError, DatabaseUnavailableError } from '../database/database.ts'
import { whenAvailable } from './when-available.ts'

const away = () => new DatabaseUnavailableError(new Error('away'))

/** Lets `ms` pass once the program waits. @returns what `look` gave one millisecond before the end */
async function pass<T>({ mock: { timers } }: TestContext, ms: number, look: () => T): Promise<T> {
  await new Promise(setImmediate)
  timers.tick(ms - 1)
  await new Promise(setImmediate)
  const before = look()
  timers.tick(1)
  return before
}

describe('whenAvailable', () => {
  it('tries again, later each time, and says so', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const waits: number[] = []
    let attempts = 0
    const done = whenAvailable(
      async () => {
        if (++attempts < 8) throw away()
        return 'there'
      },
      {
        onWait: (_fault, retryMs) => {
          const attempt = attempts
          waits.push(retryMs)
          void pass(t, retryMs, () => attempts).then((before) => assert.equal(before, attempt))
        },
        signal: new AbortController().signal,
      },
    )
    assert.equal(await done, 'there')
    assert.deepEqual(waits, [250, 500, 1000, 2000, 4000, 5000, 5000])
  })

  it('waits also for a busy database, because another backend may be migrating it', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const waits: string[] = []
    let attempts = 0
    const done = whenAvailable(
      async () => {
        if (++attempts < 3) throw new DatabaseBusyError('a statement took too long')
        return 'free'
      },
      {
        onWait: ({ message }, retryMs) => {
          waits.push(message)
          void pass(t, retryMs, () => {})
        },
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
