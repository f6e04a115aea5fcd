import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { foldedName, isProtectedName, ruleOf } from './field-rules.ts'

describe('the rule of a field', () => {
  it('is the same however many names were made up in between', () => {
    assert.equal(ruleOf('x-ssl-anything').upstream, 'dropped')
    for (let i = 0; i < 2000; i++) assert.equal(ruleOf(`x-made-up-${i}`).upstream, 'copied')
    assert.equal(ruleOf('x-ssl-anything').upstream, 'dropped')
    assert.equal(ruleOf('x.y').odd, true)
  })

  it('calls every name odd that has more than letters, digits and hyphens', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[!#$%&'*+.^_`|~0-9a-z-]{1,12}$/), (name) => {
        assert.equal(ruleOf(name).odd, /[^0-9a-z-]/.test(name))
      }),
    )
  })

  it('keeps each repeated singleton apart from the others', () => {
    const names = ['authorization', 'content-length', 'transfer-encoding', 'host', 'x-api-key', 'webhook-id']
    assert.equal(new Set(names.map((name) => ruleOf(name).once)).size, names.length)
    assert.ok(names.every((name) => ruleOf(name).once > 0))
  })

  it('takes every name that means something here as protected, also folded', () => {
    for (const name of [
      'transfer_encoding',
      'x.auth.subject',
      'client!cert',
      'x_forwarded_for',
      'proxy',
      'via',
    ])
      assert.equal(isProtectedName(foldedName(name)), true, name)
    assert.equal(isProtectedName('x-custom'), false)
  })
})
