import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { test } from 'node:test'
import workerThreads from 'node:worker_threads'
import { BackgroundThread, THREAD_LIMITS } from './background-thread.ts'

test('a thread for which the system has no room is started later, and the process goes on', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { Worker } = workerThreads
  const put = (made: typeof Worker) => {
    Object.assign(workerThreads, { Worker: made })
    syncBuiltinESMExports()
  }
  t.after(() => put(Worker))
  put(
    class {
      constructor() {
        throw Object.assign(new Error('EAGAIN'), { code: 'ERR_WORKER_INIT_FAILED' })
      }
    } as never,
  )
  const [told, faults]: [unknown[], string[]] = [[], []]
  const heard = Promise.withResolvers<void>()
  const thread = new BackgroundThread<'finish', unknown>({
    script: 'seals/seal-thread',
    job: {},
    onNews: (news) => told.push(news) && heard.resolve(),
    onFault: (cause) => faults.push(cause),
  })
  thread.start()
  t.mock.timers.tick(1000)
  put(Worker)
  t.mock.timers.tick(2000)
  assert.deepEqual(faults, Array(2).fill('the thread seals/seal-thread cannot be started: EAGAIN'))
  assert.equal(thread.isRunning, true)
  await heard.promise
  await thread.finish('finish', 60_000)
})

/** Keeps some MiB, and makes garbage in 300 turns. */
const BUSY_THREAD = `
  const { constants, PerformanceObserver } = require('node:perf_hooks')
  const { parentPort } = require('node:worker_threads')
  const kept = Array.from({ length: 120_000 }, (_, i) => ({ i, text: 'line ' + i }))
  let collections = 0
  const observer = new PerformanceObserver((list) => {
    for (const { detail } of list.getEntries()) {
      if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) collections++
    }
  })
  observer.observe({ entryTypes: ['gc'] })
  const turn = (left) => {
    for (let i = 0; i < 1000; i++) Buffer.from('x' + i)
    if (left > 0) setTimeout(turn, 1, left - 1)
    else setTimeout(() => parentPort.postMessage([collections, kept.length]), 10)
  }
  turn(300)`

function collectionsIn(limits: object): number {
  const program = `
    const { Worker } = require('node:worker_threads')
    const thread = new Worker(${JSON.stringify(BUSY_THREAD)}, { eval: true, resourceLimits: ${JSON.stringify(limits)} })
    thread.once('message', ([collections]) => console.log(collections))`
  return Number(execFileSync(process.execPath, [...youngOptions(), '-e', program], { encoding: 'utf8' }))
}

/** Options with which the gateway is started. */
function youngOptions(): string[] {
  const { scripts } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  const options = (scripts.gateway as string).match(/--\w+-semi-space-size=\d+/g)
  assert.ok(options)
  return options
}

test('V8 does not mark the old objects of a thread all the time, with the options that the gateway is started with', () => {
  assert.ok(collectionsIn(THREAD_LIMITS) < 5)
  assert.ok(collectionsIn({ maxOldGenerationSizeMb: 32 }) > 10, 'the test would see it')
})
