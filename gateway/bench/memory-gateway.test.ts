import assert from 'node:assert/strict'
import { it } from 'node:test'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { fillWithConnections } from './memory-gateway.ts'

const CONNECTIONS = 1_000
/** Heap bytes of a connection; the kernel and libuv need more beside it. */
const BUDGET_BYTES = 6_500

const noSignals = process.platform === 'linux' ? false : 'needs /proc'

it('an idle connection is kept, costs a bounded number of bytes and gives them back', {
  skip: noSignals,
}, async (t) => {
  const dir = temporaryDirectory(t)
  const { held, heapBytes, leftBytes } = await fillWithConnections(dir, CONNECTIONS, 3_000)
  assert.equal(held, CONNECTIONS)
  const each = heapBytes / held
  assert.ok(each <= BUDGET_BYTES, `${each} bytes each, of at most ${BUDGET_BYTES}`)
  // Less would mean that the connections were not there.
  assert.ok(each >= 500, `${each} bytes each`)
  assert.ok(leftBytes <= 0.2 * heapBytes, `${leftBytes} of ${heapBytes} bytes are left`)
})
