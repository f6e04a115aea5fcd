import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { SharedLock } from './shared-lock.ts'

/** The locks of three threads on one word; all run in this thread. */
function locks() {
  const words = new Int32Array(new SharedArrayBuffer(8))
  return {
    words,
    one: new SharedLock(words, 1, 0),
    other: new SharedLock(words, 1, 1),
    third: new SharedLock(words, 1, 2),
  }
}

test('one thread at a time holds the lock, which names it', () => {
  const { one, other } = locks()
  assert.deepEqual([one.holder, one.tryAcquire(), other.tryAcquire(), other.holder], [-1, true, false, 0])
  one.release()
  assert.deepEqual([other.acquireSoon(), one.holder], [true, 1])
})

test('acquire gives up after its timeout, and calls back before each sleep', () => {
  const { one, other } = locks()
  one.acquire(0)
  let sleeps = 0
  assert.equal(
    other.acquire(10, () => sleeps++),
    false,
  )
  assert.ok(sleeps > 0)
  assert.equal(one.holder, 0)
  one.release()
  assert.equal(other.acquire(0), true)
})

test('a thread that rarely gets a processor does not give up a lock that others release in time', (t) => {
  const { one, other } = locks()
  let nowMs = 0
  t.mock.method(performance, 'now', () => {
    nowMs += 1000
    return nowMs
  })
  one.acquire(0)
  let sleeps = 0
  const releaseLater = () => {
    if (++sleeps === 3) one.release()
  }
  assert.equal(other.acquire(250, releaseLater), true)
})

test('the lock of a dead thread can be taken over, also while others wait, and no other lock', () => {
  const { one, other, third } = locks()
  one.acquire(0)
  assert.equal(third.acquire(5), false)
  assert.deepEqual([other.takeFrom(2), other.takeFrom(0), other.holder], [false, true, 1])
  other.release()
  assert.equal(third.tryAcquire(), true)
})

test('threads that add under the lock lose no addition', async () => {
  const { words } = locks()
  const module = JSON.stringify(new URL('./shared-lock.ts', import.meta.url).href)
  const code = `
    const { workerData: { words, thread } } = require('node:worker_threads')
    import(${module}).then(({ SharedLock }) => {
      const lock = new SharedLock(words, 1, thread)
      for (let i = 0; i < 20_000; i++) {
        lock.acquire(Infinity)
        words[0] = words[0] + 1
        lock.release()
      }
    })`
  const workers = [0, 1, 2].map(
    (thread) => new Worker(code, { eval: true, workerData: { words, thread }, execArgv: ['--no-warnings'] }),
  )
  await Promise.all(workers.map((worker) => once(worker, 'exit')))
  assert.deepEqual([...words], [60_000, 0])
})
