import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Commit } from '../../audit/commit/commit.ts'
import { refusal } from '../../refusals.ts'
import { admit } from '../admit.ts'
import { PendingRecord, record } from '../record.ts'
import { makeExchange, makeGateway, makePrincipal } from '../stage.test-support.ts'
import { giveUp, refuse } from './refuse.ts'

const NOT_FOUND = refusal('not_found', { headers: ['Retry-After', '3'], cause: 'private' })

describe('refuse', () => {
  it('records the exchange, then sends a problem (RFC 9457)', () => {
    const { gateway, trail } = makeGateway()
    const { exchange, res } = makeExchange()
    refuse(gateway, exchange, NOT_FOUND)
    assert.deepEqual(
      trail.records.map(({ type, statusCode }) => [type, statusCode]),
      [
        ['API_REQUEST', undefined],
        ['API_RESPONSE', 404],
      ],
    )
    assert.deepEqual([res.calls, exchange.refusalCode], [['head 404', 'write', 'end'], 'not_found'])
    const { type, title, status, code, requestId } = JSON.parse(res.body)
    assert.deepEqual(
      [type, title, status, code, requestId],
      ['urn:countersign:problem:not_found', 'Not Found', 404, 'not_found', 'request-1'],
    )
    assert.match(res.lines, /Content-Type: application\/problem\+json\r\n/)
    assert.match(res.lines, new RegExp(`Content-Length: ${Buffer.byteLength(res.body)}\\r\\n`))
    assert.match(res.lines, /Retry-After: 3\r\n/)
    assert.match(res.lines, /X-Request-ID: request-1\r\n/)
    assert.equal(res.body.includes('private'), false)
  })

  it('records the client that a credential names as claimed, unless the caller was proved', () => {
    for (const [principal, claimed] of [
      [undefined, 'acme'],
      [makePrincipal(), undefined],
    ] as const) {
      const { gateway, trail } = makeGateway()
      const { exchange } = makeExchange()
      exchange.principal = principal
      refuse(gateway, exchange, refusal('invalid_signature', { client: 'acme' }))
      assert.equal(trail.records[1]?.claimedClientId, claimed)
    }
  })

  it('sends a page to a browser', () => {
    const { exchange, res } = makeExchange({ headers: { Accept: 'text/html,*/*;q=0.8' } })
    refuse(makeGateway().gateway, exchange, NOT_FOUND)
    assert.match(
      res.lines,
      /Content-Type: text\/html; charset=utf-8\r\nContent-Security-Policy: default-src 'none'/,
    )
    assert.match(res.body, /^<!DOCTYPE html>/)
    assert.match(res.body, /try again in 3 seconds/)
  })

  it('says 503 instead when the exchange cannot be recorded', () => {
    const { gateway, trail } = makeGateway()
    trail.fault = new Error('disk full')
    const { exchange, res } = makeExchange()
    refuse(gateway, exchange, NOT_FOUND)
    assert.deepEqual([res.status, exchange.refusalCode, trail.lines], [503, 'audit_unavailable', []])
  })

  it('tries only once to record what cannot be recorded, whichever stage tried', () => {
    const { gateway, trail } = makeGateway()
    trail.fault = new Error('disk full')
    for (const stage of [admit, record, undefined]) {
      const { exchange, res } = makeExchange()
      trail.refused = 0
      const refused = stage?.(gateway, exchange)
      assert.ok(refused === undefined || 'code' in refused)
      refuse(gateway, exchange, refused ?? NOT_FOUND)
      assert.deepEqual([trail.refused, res.status, trail.lines], [1, 503, []])
    }
  })

  it('does not record what the trail has refused already, though it can be written again', () => {
    const { gateway, trail } = makeGateway()
    trail.commit = new Commit()
    const { exchange, res } = makeExchange()
    const pending = record(gateway, exchange)
    assert.ok(pending instanceof PendingRecord)
    pending.whenKnown((refused) => refuse(gateway, exchange, refused ?? NOT_FOUND))
    trail.commit.finish(new Error('no fsync'))
    assert.deepEqual([res.status, trail.lines.length], [503, 1])
  })

  it('keeps the connection only when the next request can be read from it', () => {
    const kept = (code: 'not_found' | 'draining', complete: boolean, phase: 'serving' | 'draining') => {
      const { gateway } = makeGateway()
      gateway.load.phase = phase
      const { exchange, res } = makeExchange({ complete })
      refuse(gateway, exchange, refusal(code))
      return res.keepAlive
    }
    assert.equal(kept('not_found', true, 'serving'), true)
    assert.equal(kept('not_found', false, 'serving'), false)
    assert.equal(kept('not_found', true, 'draining'), false)
    assert.equal(kept('draining', true, 'serving'), false)
  })

  it('refuses a call of gRPC in a head of 200, and records the status of the refusal', () => {
    const { gateway, trail, measured } = makeGateway()
    const headers = { 'content-type': 'application/grpc+proto' }
    const { exchange, res } = makeExchange({ method: 'POST', version: '2', headers })
    refuse(gateway, exchange, NOT_FOUND)
    assert.deepEqual([res.calls, res.body, exchange.refusalCode], [['head 200', 'end'], '', 'not_found'])
    assert.match(res.lines, /^Content-Type: application\/grpc\r\ngrpc-status: 12\r\ngrpc-message: No route/)
    for (const line of ['Retry-After: 3\r\n', 'X-Frame-Options: DENY\r\n', 'X-Request-ID: request-1\r\n'])
      assert.ok(res.lines.includes(line), line)
    assert.doesNotMatch(res.lines, /Content-Length/)
    assert.deepEqual([trail.records[1]?.statusCode, trail.records[1]?.grpcStatus], [404, 12])
    assert.ok(measured.some((line) => line.startsWith('closed 404')))
  })

  it('does nothing to an exchange that has ended', () => {
    const { gateway, trail } = makeGateway()
    const { exchange, res } = makeExchange()
    exchange.closed = true
    refuse(gateway, exchange, NOT_FOUND)
    assert.deepEqual([res.calls, trail.lines], [[], []])
  })
})

describe('giveUp', () => {
  function forwarded() {
    const { exchange, res } = makeExchange()
    let aborted = 0
    exchange.forwarding = {
      status: 0,
      isSent: true,
      abort: () => aborted++,
      clientGone: () => assert.fail('it is still there'),
    }
    return { exchange, res, aborted: () => aborted }
  }

  it('refuses an exchange whose response has not begun', () => {
    const { exchange, res, aborted } = forwarded()
    giveUp(makeGateway().gateway, exchange, refusal('upstream_timeout'))
    assert.deepEqual([res.status, aborted()], [504, 1])
  })

  it('breaks off a response that has begun, and records why', () => {
    const { gateway, trail, logged } = makeGateway()
    const { exchange, res, aborted } = forwarded()
    res.headersSent = true
    giveUp(gateway, exchange, refusal('upstream_broken', { cause: 'reset' }))
    assert.deepEqual([res.calls, aborted()], [['breakOff'], 1])
    assert.deepEqual([trail.records[1]?.statusCode, exchange.refusalCode], [502, 'upstream_broken'])
    assert.equal(logged.length, 1)
  })

  it('ends a call of gRPC with a status, but not for a client that takes nothing', () => {
    const ended = (code: 'upstream_timeout' | 'response_timeout', isCall = true) => {
      const headers = { 'content-type': 'application/grpc' }
      const { exchange, res } = makeExchange({ version: '2', headers })
      const { gateway, trail } = makeGateway()
      if (isCall) exchange.grpcStatus = 0
      res.headersSent = true
      giveUp(gateway, exchange, refusal(code))
      return [res.calls, res.trailers?.slice(0, 14), trail.records[1]?.grpcStatus]
    }
    assert.deepEqual(ended('upstream_timeout'), [['end'], 'grpc-status: 4', 4])
    assert.deepEqual(ended('response_timeout'), [['breakOff'], undefined, 4])
    // A service of HTTP/1.1 answers no gRPC calls, whatever the client says.
    assert.deepEqual(ended('upstream_timeout', false), [['breakOff'], undefined, undefined])
  })

  it('stops the upstream, and nothing else, when the exchange has ended', () => {
    const { exchange, res, aborted } = forwarded()
    exchange.closed = true
    giveUp(makeGateway().gateway, exchange, refusal('upstream_broken'))
    assert.deepEqual([res.calls, aborted()], [[], 1])
  })
})
