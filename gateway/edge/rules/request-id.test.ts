import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { acceptedRequestId, newRequestId } from './request-id.ts'

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

describe('request ids', () => {
  it('ascend and never repeat', () => {
    const fromMs = Date.now()
    const ids = Array.from({ length: 5000 }, () => newRequestId())
    assert.deepEqual(ids.toSorted(), ids)
    assert.equal(new Set(ids).size, ids.length)
    for (const id of ids) assert.match(id, UUID_V7)
    const madeMs = Number.parseInt((ids[0] ?? '').replaceAll('-', '').slice(0, 12), 16)
    assert.ok(madeMs > fromMs - 1000 && madeMs < Date.now() + 1000, `${madeMs}, asked for at ${fromMs}`)
  })

  it('ascend while the clock stands still or is set back, however many are made', (t) => {
    const standsMs = Date.now() + 60_000
    const clock = t.mock.method(Date, 'now', () => standsMs)
    const ids = Array.from({ length: 40_000 }, () => newRequestId())
    clock.mock.mockImplementation(() => standsMs - 3_600_000)
    ids.push(...Array.from({ length: 40_000 }, () => newRequestId()))
    for (const [at, id] of ids.entries()) {
      assert.match(id, UUID_V7)
      assert.ok(at === 0 || id > (ids[at - 1] as string), `${id} after ${ids[at - 1]}`)
    }
  })

  for (const id of ['a', 'Az09._-:/+=@', 'x'.repeat(128)]) {
    it(`accepts ${id.slice(0, 20)} from a client`, () => assert.equal(acceptedRequestId(id), id))
  }
  for (const id of [undefined, '', 'x'.repeat(129), 'a b', 'a"b', 'a\u00e9', 'a,b', '<script>', 'a\tb']) {
    it(`accepts no ${JSON.stringify(id)?.slice(0, 20)} from a client`, () =>
      assert.equal(acceptedRequestId(id), undefined))
  }
})
