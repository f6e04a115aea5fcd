import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, it } from 'node:test'
import { threadId, Worker } from 'node:worker_threads'
import { acceptedRequestId, isMadeBy, newRequestId } from './request-id.ts'

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

describe('request ids', () => {
  it('makes ids that ascend and never repeat', () => {
    const fromMs = Date.now()
    const ids = Array.from({ length: 5000 }, () => newRequestId())
    assert.deepEqual(ids.toSorted(), ids)
    assert.equal(new Set(ids).size, ids.length)
    for (const id of ids) assert.match(id, UUID_V7)
    const madeMs = Number.parseInt((ids[0] ?? '').replaceAll('-', '').slice(0, 12), 16)
    assert.ok(madeMs > fromMs - 1000 && madeMs < Date.now() + 1000, `${madeMs}, asked for at ${fromMs}`)
  })

  it('tells the ids that two worker threads make apart', async () => {
    const module = JSON.stringify(new URL('./request-id.ts', import.meta.url).href)
    const code = `import(${module}).then(({ newRequestId }) =>
      require('node:worker_threads').parentPort.postMessage(Array.from({ length: 100 }, newRequestId)))`
    const workers = [1, 2].map(() => new Worker(code, { eval: true, execArgv: ['--no-warnings'] }))
    const threads = workers.map((worker) => worker.threadId)
    const ids = await Promise.all(
      workers.map(async (worker) => (await once(worker, 'message'))[0] as string[]),
    )
    for (const [index, own] of ids.entries()) {
      for (const id of own) {
        assert.match(id, UUID_V7)
        assert.deepEqual(
          threads.map((thread) => isMadeBy(thread, id)),
          [index === 0, index === 1],
        )
      }
    }
    assert.deepEqual([isMadeBy(0x1_0001, 'x-0001'), isMadeBy(0x1_0001, 'x-1001')], [true, false])
  })

  it('makes ids that end at random in the main thread', () => {
    assert.equal(threadId, 0)
    assert.ok(new Set(Array.from({ length: 100 }, () => newRequestId().slice(-4))).size > 90)
  })

  for (const id of ['a', 'Az09._-:/+=@', 'x'.repeat(128)]) {
    it(`accepts ${id.slice(0, 20)} from a client`, () => assert.equal(acceptedRequestId(id), id))
  }
  for (const id of [undefined, '', 'x'.repeat(129), 'a b', 'a"b', 'a\u00e9', 'a,b', '<script>', 'a\tb']) {
    it(`accepts no ${JSON.stringify(id)?.slice(0, 20)} from a client`, () =>
      assert.equal(acceptedRequestId(id), undefined))
  }
})
