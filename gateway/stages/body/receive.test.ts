import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { makeExchange, makeGateway } from '../stage.test-support.ts'
import { receive } from './receive.ts'

function received(length: string | undefined, more: { complete?: boolean; expect?: string } = {}) {
  const headers = {
    ...(length === undefined ? { 'Transfer-Encoding': 'chunked' } : { 'Content-Length': length }),
    ...(more.expect === undefined ? {} : { Expect: more.expect }),
  }
  const made = makeExchange({ method: 'POST', headers, complete: more.complete ?? false })
  return { ...made, outcome: receive(makeGateway().gateway, made.exchange) }
}

describe('receive', () => {
  it('waits until a short body is whole', async () => {
    const { outcome, completeBody } = received('16384')
    assert.ok(outcome instanceof Promise)
    let waited = true
    void outcome.then(() => {
      waited = false
    })
    await new Promise(setImmediate)
    assert.equal(waited, true)
    completeBody(undefined)
    assert.equal(await outcome, undefined)
  })

  it('waits for nothing that is there, long, or of unknown length', () => {
    assert.equal(received('5', { complete: true }).outcome, undefined)
    assert.equal(received('16385').outcome, undefined)
    assert.equal(received(undefined).outcome, undefined)
  })

  it('does not wait for a client that waits for 100 (Continue)', () => {
    assert.equal(received('5', { expect: '100-continue' }).outcome, undefined)
  })
})
