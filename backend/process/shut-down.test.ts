import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { shutDown } from './shut-down.ts'

function recorded(hanging: readonly string[]) {
  const events: string[] = []
  const part = (name: string) => ({
    close: () => {
      events.push(`close ${name}`)
      return hanging.includes(name) ? new Promise<void>(() => {}) : Promise.resolve()
    },
  })
  const log = (message: unknown) => void events.push(String(message))
  return {
    events,
    stop: () =>
      shutDown(
        { app: part('app'), database: part('database') },
        { info: log, error: log },
        { drainMs: 1, closeMs: 1 },
      ),
  }
}

describe('shutDown', () => {
  it('closes the database after the app', async () => {
    const { events, stop } = recorded([])
    assert.equal(await stop(), 0)
    assert.deepEqual(events, ['close app', 'close database', 'stopped'])
  })

  it('closes the database also when requests are still in flight at the deadline', async () => {
    const { events, stop } = recorded(['app'])
    assert.equal(await stop(), 1)
    assert.deepEqual(events, [
      'close app',
      'requests still in flight at the deadline are cut off',
      'close database',
      'stopped',
    ])
  })

  it('does not blame requests for a database that cannot be closed', async () => {
    const { events, stop } = recorded(['database'])
    assert.equal(await stop(), 1)
    assert.deepEqual(events, [
      'close app',
      'close database',
      'the database could not be closed in time',
      'stopped',
    ])
  })
})
