import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { test } from 'node:test'
import { MAX_WORKERS, workerCount } from './worker-count.ts'

test('a number of workers is that number, and auto is one for each core', () => {
  assert.equal(workerCount(3), 3)
  assert.equal(workerCount('auto'), Math.min(availableParallelism(), MAX_WORKERS))
})
