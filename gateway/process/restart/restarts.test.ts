import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CannotRestart, Restarts } from './restarts.ts'

const parts = { predecessorIsHere: () => false, onSuspended: assert.fail, onBack: assert.fail }

test('a gateway that does not serve yet is not restarted, and says so', async () => {
  const restarts = new Restarts({ ...parts, serving: {} } as never)
  await assert.rejects(restarts.restart(), (error) => {
    assert.ok(error instanceof CannotRestart)
    assert.match(error.message, /has not started yet/)
    return true
  })
})

test('a process whose predecessor has requests, and one that is being stopped, is not restarted', async () => {
  const early = new Restarts({ ...parts, serving: {}, predecessorIsHere: () => true } as never)
  await assert.rejects(early.restart(), /try again later/)
  const stopping = new Restarts({ ...parts, serving: {} } as never)
  assert.equal(await stopping.stop(), undefined)
  await assert.rejects(stopping.restart(), /is being stopped/)
})
