import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { admit } from './admit.ts'
import { makeExchange, makeGateway } from './stage.test-support.ts'

type Request = Parameters<typeof makeExchange>[0]

/** The code of the refusal, for a request to a gateway that has room. */
function codeFor(request: Request): string | undefined {
  return admit(makeGateway().gateway, makeExchange(request).exchange)?.code
}

describe('admit', () => {
  it('writes the normalised path, the query and the host', () => {
    const { exchange } = makeExchange({ target: '/api/%61?b=1' })
    assert.equal(admit(makeGateway().gateway, exchange), undefined)
    assert.deepEqual([exchange.path, exchange.query, exchange.host], ['/api/a', '?b=1', 'api.example'])
  })

  it('refuses a method that is not registered and that no row lists', () => {
    for (const method of ['PURGE', 'NOTIFY', 'SUBSCRIBE', 'UNSUBSCRIBE', 'M-SEARCH', 'SOURCE', 'STEAL'])
      assert.equal(codeFor({ method }), 'method_unknown', method)
    for (const method of ['GET', 'PROPFIND', 'LINK', 'QUERY', 'MKCALENDAR', 'REBIND'])
      assert.equal(codeFor({ method }), undefined, method)
  })

  it('takes the host of an absolute target before Host', () => {
    const { exchange } = makeExchange({ target: 'http://other.example/x' })
    assert.equal(admit(makeGateway().gateway, exchange), undefined)
    assert.equal(exchange.host, 'other.example')
  })

  it('refuses what two readers could understand differently', () => {
    assert.equal(codeFor({ method: 'CONNECT', target: 'api.example:443' }), 'method_not_allowed')
    assert.equal(codeFor({ method: 'TRACE' }), 'method_not_allowed')
    assert.equal(codeFor({ target: '/a/%2e%2e/%00' }), 'invalid_target')
    assert.equal(codeFor({ target: `/${'a'.repeat(8191)}` }), undefined)
    assert.equal(codeFor({ target: `/${'a'.repeat(8192)}` }), 'target_too_long')
    assert.equal(codeFor({ headers: { Host: 'a b' } }), 'invalid_host')
    assert.equal(codeFor({ headers: { X_Folded: '1' } }), 'invalid_header')
    assert.equal(
      codeFor({ headers: { 'Content-Length': '1', 'Transfer-Encoding': 'chunked' } }),
      'invalid_framing',
    )
    assert.equal(codeFor({ headers: { Expect: 'tea' } }), 'expectation_failed')
    assert.equal(codeFor({ headers: { Expect: '100-Continue' } }), undefined)
  })

  it('tells the log which key could let through what is refused', () => {
    const causeFor = (request: Request) => admit(makeGateway().gateway, makeExchange(request).exchange)?.cause
    assert.match(String(causeFor({ target: '/npm/@a%2fb' })), /^encodedSlashes /)
    assert.match(String(causeFor({ target: '/a;v=1' })), /^pathParameters /)
    assert.match(String(causeFor({ headers: { X_Folded: '1' } })), /^underscoreNames .* allowedFieldNames /)
    assert.equal(causeFor({ target: '/%00?a=;%2F' }), undefined)
  })

  it('lets a folded header name pass that the operator allows', () => {
    const { gateway } = makeGateway({ settings: { allowedFieldNames: new Set(['x_folded']) } })
    assert.equal(admit(gateway, makeExchange({ headers: { X_Folded: '1' } }).exchange), undefined)
  })

  it('refuses a request that has passed this gateway before', () => {
    const came = (loop: string) => codeFor({ headers: { 'CDN-Loop': loop } })
    assert.equal(came('cdn.example, countersign; id=here'), 'loop_detected')
    assert.equal(came('countersign; id=elsewhere'), undefined)
  })

  it('refuses when there is no room, no record or no time left', () => {
    const { exchange } = makeExchange()
    const over = makeGateway()
    over.gateway.load.phase = 'over'
    assert.equal(admit(over.gateway, exchange)?.code, 'draining')
    assert.equal(admit(makeGateway({ maxInFlight: 0 }).gateway, exchange)?.code, 'overloaded')
    const unrecorded = makeGateway()
    unrecorded.trail.fault = new Error('disk full')
    assert.equal(admit(unrecorded.gateway, exchange)?.code, 'audit_unavailable')
  })

  it('admits during the grace of a drain', () => {
    const { gateway } = makeGateway()
    gateway.load.phase = 'draining'
    assert.equal(admit(gateway, makeExchange().exchange), undefined)
  })

  it('refuses an upgrade, and only that, when every tunnel is taken', () => {
    const { gateway } = makeGateway({ load: { tunnels: { areExhausted: true } as never } })
    assert.equal(admit(gateway, makeExchange({ upgrade: 'websocket' }).exchange)?.code, 'overloaded')
    assert.equal(admit(gateway, makeExchange().exchange), undefined)
  })

  it('names the path of a request that it refuses for another reason', () => {
    const { exchange } = makeExchange({ target: '/api/x?secret', headers: { Host: '' } })
    assert.equal(admit(makeGateway().gateway, exchange)?.code, 'invalid_host')
    assert.equal(exchange.path, '/api/x')
  })
})
