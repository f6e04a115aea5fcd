import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { expiryDay, isBirthDate, isInForce } from './dates.ts'

const TODAY = new Date('2026-03-01T12:00:00Z')
const day = (text: string) => expiryDay(text, TODAY)?.toISOString().slice(0, 10)

describe('expiryDay', () => {
  it('takes the year nearest to today, fifty years to either side', () => {
    assert.equal(day('120415'), '2012-04-15')
    assert.equal(day('360415'), '2036-04-15')
    assert.equal(day('751231'), '2075-12-31')
    assert.equal(day('760101'), '1976-01-01')
    assert.equal(day('990101'), '1999-01-01')
    assert.equal(expiryDay('050101', new Date('2096-01-01'))?.getUTCFullYear(), 2105)
  })

  it('knows the days of the calendar', () => {
    assert.equal(day('280229'), '2028-02-29')
    for (const text of ['270229', '261301', '260001', '260100', '260431', '<<<<<<'])
      assert.equal(day(text), undefined)
  })
})

describe('isInForce', () => {
  it('holds through the whole last day', () => {
    assert.equal(isInForce(new Date('2026-03-01'), TODAY), true)
    assert.equal(isInForce(new Date('2026-03-01'), new Date('2026-03-01T23:59:59.999Z')), true)
    assert.equal(isInForce(new Date('2026-03-01'), new Date('2026-03-02T00:00:00Z')), false)
  })
})

describe('isBirthDate', () => {
  it('is a day of the calendar in the past, in whichever century that is', () => {
    assert.equal(isBirthDate('740812', TODAY), true)
    assert.equal(isBirthDate('260301', TODAY), true)
    assert.equal(isBirthDate('000229', TODAY), true, '29 February 2000')
    assert.equal(isBirthDate('270229', TODAY), false, 'neither 2027 nor 1927 has that day')
    assert.equal(isBirthDate('280229', TODAY), true, '29 February 1928')
    assert.equal(isBirthDate('741301', TODAY), false)
    assert.equal(isBirthDate('740800', TODAY), false)
  })

  it('may be known in part', () => {
    assert.equal(isBirthDate('<<<<<<', TODAY), true)
    assert.equal(isBirthDate('74<<<<', TODAY), true)
    assert.equal(isBirthDate('7408<<', TODAY), true)
    assert.equal(isBirthDate('7413<<', TODAY), false)
    assert.equal(isBirthDate('74<<12', TODAY), false)
  })
})
