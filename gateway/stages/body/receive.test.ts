import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { describe, it } from 'node:test'
import { digestOf } from '../../auth/signatures/signed-request.test-support.ts'
import { makeExchange, makeGateway, makeRoute } from '../stage.test-support.ts'
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

  it('does not wait for a body that is complete, long, or of unknown length', () => {
    assert.equal(received('5', { complete: true }).outcome, undefined)
    assert.equal(received('16385').outcome, undefined)
    assert.equal(received(undefined).outcome, undefined)
  })

  it('waits for the first byte or the end of what may be a GET without a body, but not for long', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const open = (method = 'GET', more: object = {}) => {
      const { exchange } = makeExchange({ method, version: '2', complete: false })
      let begin = () => {}
      const body = { isEmpty: true }
      const whenBegun = (run: () => void) => {
        begin = run
      }
      Object.assign(exchange.req, { body, whenBegun }, more)
      exchange.headers.hasBody = true
      return { outcome: receive(makeGateway().gateway, exchange), begin: () => begin() }
    }
    const [begun, silent] = [open(), open()]
    assert.ok(begun.outcome instanceof Promise && silent.outcome instanceof Promise)
    begun.begin()
    assert.equal(await begun.outcome, undefined)
    t.mock.timers.tick(50)
    assert.equal(await silent.outcome, undefined)
    for (const { outcome } of [open('POST'), open('GET', { body: { isEmpty: false } })])
      assert.equal(outcome, undefined)
    for (const more of [{ version: '1.1' }, { complete: true }])
      assert.equal(open('GET', more).outcome, undefined)
  })

  it('refuses a wrong digest where the gateway signs the request to the service, or the response', () => {
    for (const row of [{ signsRequests: true }, { signsResponses: true }, {}])
      for (const [body, code] of [
        ['{}', undefined],
        ['{"amount":1}', Object.keys(row).length === 0 ? undefined : 'digest_mismatch'],
      ] as const) {
        const { exchange } = makeExchange({ method: 'POST', headers: { 'Content-Digest': digestOf('{}') } })
        exchange.route = makeRoute(row)
        exchange.bufferedBody = Buffer.from(body)
        const outcome = receive(makeGateway().gateway, exchange)
        assert.equal(outcome && 'code' in outcome ? outcome.code : outcome, code)
      }
  })

  it('refuses a call of gRPC at once where its body is signed, because it may go on without an end', () => {
    const headers = { 'Content-Type': 'application/grpc' }
    const { exchange } = makeExchange({ method: 'POST', version: '2', headers, complete: false })
    Object.assign(exchange.req, { body: new PassThrough() })
    exchange.headers.hasBody = true
    exchange.route = makeRoute({ signsRequests: true })
    const outcome = receive(makeGateway().gateway, exchange)
    assert.ok(outcome && 'code' in outcome)
    assert.deepEqual([outcome.code, outcome.status], ['unsupported_media_type', 415])
  })

  it('does not wait for a client that waits for 100 (Continue)', () => {
    assert.equal(received('5', { expect: '100-continue' }).outcome, undefined)
  })
})
