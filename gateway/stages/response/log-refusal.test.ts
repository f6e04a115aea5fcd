import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type RefusalCode, refusal } from '../../refusals.ts'
import { makeExchange, makeGateway } from '../stage.test-support.ts'
import { logRefusal } from './log-refusal.ts'

function logOf() {
  const made = makeGateway()
  const { exchange } = makeExchange({ headers: { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-00` } })
  const log = (code: RefusalCode, cause?: string) =>
    logRefusal(made.gateway, exchange, refusal(code, cause === undefined ? {} : { cause }))
  const levels = () => made.logged.map(([level]) => level)
  return { ...made, log, levels }
}

describe('logRefusal', () => {
  it('logs at warn what the caller did not cause, at info what it caused, and at debug what the response says', () => {
    const { log, levels, logged } = logOf()
    log('upstream_timeout')
    log('invalid_token', 'the signature')
    log('not_found')
    assert.deepEqual(levels(), ['warn', 'info', 'debug'])
    const [, line] = logged[1] ?? []
    assert.deepEqual(
      { ...line },
      {
        requestId: 'request-1',
        traceId: 'a'.repeat(32),
        code: 'invalid_token',
        route: undefined,
        claimedClientId: undefined,
        cause: 'the signature',
      },
    )
  })

  it('warns of one code once a second, and counts what it leaves out', () => {
    const { log, levels, logged, time } = logOf()
    for (let i = 0; i < 4; i++) log('upstream_timeout')
    assert.deepEqual(levels(), ['warn', 'debug', 'debug', 'debug'])
    time.nowMs += 999
    log('upstream_timeout')
    assert.equal(levels().at(-1), 'debug')
    time.nowMs += 1
    log('upstream_timeout')
    assert.equal(levels().at(-1), 'warn')
    const [, line] = logged.at(-1) ?? []
    assert.equal((line as { unlogged?: number }).unlogged, 4)
  })

  it('logs twenty mistakes of callers in quick succession, each code by itself', () => {
    const { log, levels } = logOf()
    for (let i = 0; i < 25; i++) log('invalid_token', 'x')
    log('invalid_signature', 'x')
    assert.equal(levels().filter((level) => level === 'info').length, 21)
    assert.equal(levels().at(-1), 'info')
  })

  it('cuts a long cause', () => {
    const { log, logged } = logOf()
    log('invalid_token', 'x'.repeat(1000))
    const [, line] = logged[0] ?? []
    assert.equal((line as { cause: string }).cause.length, 400)
  })
})
