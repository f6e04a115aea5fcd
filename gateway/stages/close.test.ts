import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Commit } from '../audit/commit/commit.ts'
import { close } from './close.ts'
import { record } from './record.ts'
import { makeExchange, makeGateway } from './stage.test-support.ts'
import { takePermit } from './take-permit.ts'

/** An exchange that is recorded, counts as in flight and holds a permit. */
function underWay(writable = true) {
  const made = makeGateway()
  const { exchange, res } = makeExchange({ writable })
  made.gateway.load.inFlight.add(exchange)
  record(made.gateway, exchange)
  takePermit(made.gateway, exchange)
  return { ...made, exchange, res }
}

describe('close', () => {
  it('records status and duration, measures, and gives the place back', () => {
    const { gateway, exchange, res, trail, measured, time } = underWay()
    time.nowMs += 12.5
    close(gateway, exchange, 201)
    const [, { type, statusCode, duration } = {}] = trail.records
    assert.deepEqual([type, statusCode, duration], ['API_RESPONSE', 201, 12.5])
    assert.deepEqual(measured, ['closed 201 0.0125'])
    assert.deepEqual([gateway.load.permits.taken, gateway.load.inFlight.size], [0, 0])
    assert.deepEqual(res.calls, [])
  })

  it('does all of it once', () => {
    const { gateway, exchange, trail, measured } = underWay()
    close(gateway, exchange, 200)
    close(gateway, exchange, 499)
    assert.deepEqual([trail.lines.length, measured], [2, ['closed 200 0']])
    assert.equal(gateway.load.permits.taken, 0)
  })

  it('records a request that was not recorded before', () => {
    const { gateway, trail } = makeGateway()
    close(gateway, makeExchange().exchange, 400)
    assert.deepEqual(
      trail.records.map(({ type }) => type),
      ['API_REQUEST', 'API_RESPONSE'],
    )
  })

  it('writes no response for a request that could not be recorded', () => {
    const { gateway, trail, measured } = makeGateway()
    trail.fault = new Error('disk full')
    close(gateway, makeExchange().exchange, 503)
    assert.deepEqual([trail.lines, measured], [[], ['closed 503 0']])
  })

  it('holds the response back until its record is committed', () => {
    const { gateway, exchange, res, trail } = underWay()
    const commit = new Commit()
    trail.commit = commit
    close(gateway, exchange, 200)
    assert.deepEqual(res.calls, ['hold'])
    commit.finish(undefined)
    assert.deepEqual(res.calls, ['hold', 'release'])
  })

  it('releases the response when the record of a failed commit is written later, and breaks it off otherwise', () => {
    for (const unpaid of [undefined, new Error('still full')]) {
      const { gateway, exchange, res, trail } = underWay()
      const commit = new Commit()
      trail.commit = commit
      close(gateway, exchange, 200)
      commit.finish(new Error('no fsync'))
      assert.deepEqual(res.calls, ['hold'])
      trail.unpaid[0]?.(unpaid)
      assert.deepEqual(res.calls, ['hold', unpaid === undefined ? 'release' : 'breakOff'])
    }
  })

  it('holds nothing back for a client that has gone', () => {
    const { gateway, exchange, res, trail } = underWay(false)
    trail.commit = new Commit()
    close(gateway, exchange, 499)
    assert.deepEqual(res.calls, [])
  })
})
