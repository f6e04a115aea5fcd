import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { amountPattern, fromMinor, toMinor } from './money.ts'

describe('money', () => {
  it('is read and written with the decimals of the currency', () => {
    assert.equal(toMinor('12.50', 2), 1250n)
    assert.equal(toMinor('12.5', 2), 1250n)
    assert.equal(toMinor('12', 0), 12n)
    assert.equal(toMinor('1.234', 3), 1234n)
    assert.equal(toMinor('1.234', 2), undefined)
    assert.equal(toMinor('1.0', 0), undefined)
    assert.equal(fromMinor(1250n, 2), '12.50')
    assert.equal(fromMinor(5n, 2), '0.05')
    assert.equal(fromMinor(-5n, 2), '-0.05')
    assert.equal(fromMinor(-50n, 0), '-50')
    assert.equal(fromMinor(0n, 3), '0.000')
  })

  it('is the same after it is written and read again', () => {
    const amounts = fc.bigInt({ min: 1n, max: 999_999_999_999_99n })
    fc.assert(
      fc.property(amounts, fc.constantFrom(2, 3, 4), (amountMinor, minorUnits) => {
        const text = fromMinor(amountMinor, minorUnits)
        assert.match(text, new RegExp(amountPattern(minorUnits)))
        assert.equal(toMinor(text, minorUnits), amountMinor)
      }),
    )
  })

  it('has no zero, no sign, no leading zero and no more decimals than its currency', () => {
    const amounts = [
      '0',
      '0.0',
      '0.00',
      '00.1',
      '01',
      '-1',
      '+1',
      '1.',
      '.5',
      '1.001',
      '1e3',
      '1234567890123',
      ' 1',
    ]
    for (const amount of amounts) assert.doesNotMatch(amount, new RegExp(amountPattern(2)), amount)
    for (const amount of ['0.01', '0.1', '0.10', '1', '1.0', '10.05', '123456789012.99']) {
      assert.match(amount, new RegExp(amountPattern(2)), amount)
    }
    assert.doesNotMatch('1.0', new RegExp(amountPattern(0)))
    assert.match('0.0001', new RegExp(amountPattern(4)))
  })
})
