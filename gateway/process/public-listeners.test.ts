import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { platform } from 'node:os'
import { it } from 'node:test'
import { CannotListen, canSharePorts, listen, startFailure } from './public-listeners.ts'

it('workers are possible where the system lets several listen on one port, and the log says where it does not', async () => {
  const told: unknown[] = []
  const log = { error: (...words: unknown[]) => told.push(words) }
  assert.equal(await canSharePorts(log), platform() === 'linux')
  told.length = 0
  const refused = await canSharePorts(log, async (_server, place) => {
    throw new CannotListen(place, new Error('listen ENOTSUP: operation not supported'))
  })
  assert.equal(refused, false)
  assert.deepEqual(told, [
    [
      { cause: 'listen ENOTSUP: operation not supported' },
      'this system cannot share a port among workers: one thread serves everything',
    ],
  ])
})

it('a place that is taken is named with the reason', async () => {
  const [first, second] = [createServer(), createServer()]
  const place = { host: '127.0.0.1', port: await listen(first, { host: '127.0.0.1', port: 0 }) }
  await assert.rejects(listen(second, place), (error: CannotListen) => {
    assert.deepEqual(error.place, place)
    return /EADDRINUSE/.test(error.message)
  })
  first.close()
})

it('a start that fails is said to be one of listening only where it is', () => {
  const place = { host: '127.0.0.1', port: 1 }
  assert.deepEqual(startFailure(new CannotListen(place, new Error('listen EADDRINUSE'))), {
    what: 'cannot listen',
    host: '127.0.0.1',
    port: 1,
    cause: 'listen EADDRINUSE',
  })
  assert.deepEqual(startFailure(new Error('no thread')), { what: 'cannot start', cause: 'no thread' })
  assert.deepEqual(startFailure('odd'), { what: 'cannot start', cause: 'odd' })
})
