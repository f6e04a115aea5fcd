import assert from 'node:assert/strict'
import { createPublicKey } from 'node:crypto'
import { describe, it } from 'node:test'
import { Commit } from '../audit/commit/commit.ts'
import type { SignatureFacts } from '../auth/signatures/presented-signatures.ts'
import { freshKey } from '../auth/tokens/issuer.test-support.ts'
import { PendingRecord, record, recordAtEnd } from './record.ts'
import { makeExchange, makeGateway, makePrincipal, makeRoute } from './stage.test-support.ts'

describe('record', () => {
  it('writes API_REQUEST with the user and the app that acts for the user, and keeps the line for its response', () => {
    const { gateway, trail } = makeGateway()
    const { exchange } = makeExchange({ method: 'POST', headers: { 'User-Agent': 'test' } })
    exchange.path = '/api/x'
    exchange.route = makeRoute()
    exchange.principal = makePrincipal()
    assert.equal(record(gateway, exchange), undefined)
    assert.equal(exchange.requestLine, trail.lines[0])
    const [{ type, requestId, method, path, userId, clientId, userAgent } = {}] = trail.records
    assert.deepEqual(
      [type, requestId, method, path, userId, clientId, userAgent],
      ['API_REQUEST', 'request-1', 'POST', '/api/x', 'user-1', 'app-1', 'test'],
    )
  })

  it('writes the key of a signature before it, and the signature into API_REQUEST alone', () => {
    const { gateway, trail } = makeGateway()
    const { exchange } = makeExchange()
    exchange.principal = makePrincipal({ subject: undefined, client: 'bank-1' })
    record(gateway, exchange)
    const signature = { keyId: 'one', thumbprint: 'x'.repeat(43) } as SignatureFacts
    exchange.signed = { signature, key: createPublicKey(freshKey('one').privateKey) }
    record(gateway, exchange)
    const [plain, key, signed] = trail.records
    assert.deepEqual(signed, { ...plain, signature })
    assert.equal(exchange.requestLine, trail.lines[0])
    const { jwk, ...facts } = key as { jwk: object }
    const { thumbprint } = signature
    const timestamp = new Date(gateway.clock()).toISOString()
    assert.deepEqual(facts, { type: 'SIGNER_KEY', timestamp, clientId: 'bank-1', keyId: 'one', thumbprint })
    assert.deepEqual(Object.keys(jwk), ['kty', 'x', 'y', 'crv'])
  })

  it('names a machine that acts for itself by its client', () => {
    const { gateway, trail } = makeGateway()
    const { exchange } = makeExchange()
    exchange.principal = makePrincipal({ subject: undefined, client: 'bank-1' })
    record(gateway, exchange)
    assert.deepEqual([trail.records[0]?.userId, trail.records[0]?.clientId], [undefined, 'bank-1'])
  })

  it('cuts what a request without a route says', () => {
    const { gateway, trail } = makeGateway()
    const { exchange } = makeExchange({ headers: { 'User-Agent': 'u'.repeat(1000) } })
    exchange.path = `/${'p'.repeat(1000)}`
    record(gateway, exchange)
    const [{ path = '', userAgent = '' } = {}] = trail.records as { path?: string; userAgent?: string }[]
    assert.ok(path.length < 300 && path.startsWith('/ppp'))
    assert.ok(userAgent.length < 200 && userAgent.startsWith('uuu'))
  })

  it('refuses what cannot be recorded', () => {
    const { gateway, trail } = makeGateway()
    trail.fault = new Error('disk full')
    const { exchange } = makeExchange()
    const refused = record(gateway, exchange)
    assert.ok(refused !== undefined && 'code' in refused)
    assert.deepEqual([refused.code, refused.cause], ['audit_unavailable', 'disk full'])
    assert.equal(exchange.requestLine, undefined)
  })

  it('waits for the commit of its record, and refuses when that fails', () => {
    for (const error of [undefined, new Error('no fsync')]) {
      const { gateway, trail } = makeGateway()
      trail.commit = new Commit()
      const { exchange } = makeExchange()
      const pending = record(gateway, exchange)
      assert.ok(pending instanceof PendingRecord)
      const known: unknown[] = []
      pending.whenKnown((refused) => known.push(refused?.code))
      assert.deepEqual(known, [])
      trail.commit.finish(error)
      assert.deepEqual(known, [error && 'audit_unavailable'])
      assert.equal(exchange.requestLine === undefined, error !== undefined)
    }
  })

  it('waits for nothing at the end of an exchange', () => {
    const { gateway, trail } = makeGateway()
    trail.commit = new Commit()
    const { exchange } = makeExchange()
    assert.equal(recordAtEnd(gateway, exchange), undefined)
    assert.equal(exchange.requestLine, trail.lines[0])
  })
})
