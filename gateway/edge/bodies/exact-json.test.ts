import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { pointerSteps } from '../syntax/json-pointer.ts'
import { checkedText, isSameJson, memberIn } from './exact-json.ts'

function textOf(json: string): string {
  const checked = checkedText(Buffer.from(json))
  assert.ok('text' in checked, json)
  return checked.text
}

const at = (json: string, pointer: string) => memberIn(textOf(json), pointerSteps(pointer))
const same = (one: string, other: string) => isSameJson(textOf(one), textOf(other))

describe('two JSON texts', () => {
  it('are equal by the decimal values of their numbers, which are never rounded', () => {
    for (const [one, other] of [
      ['10.00', '10'],
      ['1e2', '100'],
      ['1E+2', '100.0'],
      ['-0', '0e5'],
      ['0.001', '1e-3'],
      ['9007199254740993', '9007199254740993.0'],
      ['[{"b":1.0,"a":"x"}]', '[{"a":"\\u0078","b":1}]'],
      ['1e99999999', '1e99999999'],
    ] as const)
      assert.ok(same(one, other), `${one} ${other}`)
    for (const [one, other] of [
      ['9007199254740993', '9007199254740992'],
      ['0.1', '0.10000000000000001'],
      ['1e400', '1e401'],
      ['1e-400', '0'],
      ['1', '-1'],
      ['"10.00"', '10.00'],
      ['"10.00"', '"10.0"'],
      ['"n1e0"', '1'],
      ['"1e0"', '1'],
      ['"s"', '""'],
      ['{"a":1}', '{"a":1,"A":1}'],
      ['[1,2]', '[2,1]'],
      ['null', '0'],
      ['true', '1'],
      ['[]', '{}'],
    ] as const)
      assert.equal(same(one, other), false, `${one} ${other}`)
  })

  it('are equal exactly when their numbers are equal as fractions of whole numbers', () => {
    const written = fc
      .record({ digits: fc.bigInt(-(10n ** 30n), 10n ** 30n), exponent: fc.integer({ min: -40, max: 40 }) })
      .map(({ digits, exponent }) => ({
        text: `${digits}e${exponent}`,
        scaled: digits * 10n ** BigInt(exponent + 40),
      }))
    fc.assert(
      fc.property(written, fc.integer({ min: -1, max: 1 }), ({ text }, more) => {
        const [digits = '', exponent = ''] = text.split('e')
        const near = `${BigInt(digits) * 10n + BigInt(more)}.0e${Number(exponent) - 1}`
        assert.equal(same(text, near), more === 0, `${text} ${near}`)
      }),
    )
    fc.assert(
      fc.property(written, written, (one, other) =>
        assert.equal(same(one.text, other.text), one.scaled === other.scaled),
      ),
    )
  })
})

describe('a member of a JSON text', () => {
  it('is found by a pointer, with escapes in pointer and text, and keeps every digit', () => {
    const json = '\n{ "a/b" : { "~1":{"\\u0061mount":["x" , 10.50\t]} } , "__proto__": -0.0 }\r\n'
    assert.deepEqual(at(json, '/a~1b/~01/amount/1'), { source: '10.50' })
    assert.deepEqual(at(json, '/a~1b/~01/amount'), { source: '["x" , 10.50\t]' })
    assert.deepEqual(at(json, '/__proto__'), { source: '-0.0' })
    assert.deepEqual(at('{"":{"":null}}', '//'), { source: 'null' })
    assert.deepEqual(at('{"}":"]","x":"\\"},","y":12345678901234567890.1}', '/y'), {
      source: '12345678901234567890.1',
    })
  })

  it('is missing when the text has no own member of that name', () => {
    const json = '{"a":[1],"n":1,"s":"text","z":null,"e":{},"l":[]}'
    for (const pointer of '/b /toString /a/length /a/01 /a/- /a/1 /n/x /s/0 /z/x /e/x /l/0 /a/0/0'.split(' '))
      assert.deepEqual(at(json, pointer), {}, pointer)
  })

  it('is the member that JSON.parse finds, in any text', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom(0, 2, '\t'), (value, indent) => {
        const json = JSON.stringify(value, null, indent)
        const check = (part: unknown, steps: readonly string[]) => {
          const { source, odd } = memberIn(json, steps)
          if (odd === undefined) assert.deepEqual(JSON.parse(source ?? 'missing'), part)
          if (typeof part !== 'object' || part === null) return
          for (const [name, inner] of Object.entries(part)) check(inner, [...steps, name])
        }
        check(JSON.parse(json), [])
      }),
    )
  })

  it('is odd when a name differs from the pointer only in letter case', () => {
    for (const name of ['Amount', 'AMOUNT', 'aMount']) {
      assert.deepEqual(at(`{"amount":1,"${name}":2}`, '/amount'), { odd: name })
      assert.deepEqual(at(`{"${name}":2,"amount":1}`, '/amount'), { odd: name })
      assert.deepEqual(at(`{"${name}":2}`, '/amount'), { odd: name })
      assert.deepEqual(at(`{"a":{"${name}":2}}`, '/a/amount'), { odd: name })
    }
    assert.deepEqual(at('{"sum":1,"sum\\u0000x":2}', '/sum'), { odd: 'sum\0x' })
    assert.deepEqual(at('{"\\u017fum":1,"sum":2}', '/sum'), { odd: '\u017fum' })
    assert.deepEqual(at('{"\\u212aind":1}', '/kind'), { odd: '\u212aind' })
  })
})
